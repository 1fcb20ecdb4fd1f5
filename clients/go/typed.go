// Handlers with an input and an output of their own types.

package taskyard

import "context"

// Typed returns the handler of a function whose input and output have types of their own. The input is decoded by
// encoding/json: one that does not fit fails the task before the work, for good, with the code bad_input. The output
// travels exactly, as [Output] does.
func Typed[I, O any](function func(ctx context.Context, task *RunningTask, input I) (O, error)) Handler {
	return func(ctx context.Context, task *RunningTask) (any, error) {
		var input I
		if err := task.DecodeParams(&input); err != nil {
			return nil, &ActionFailed{Reason: "input does not fit: " + err.Error(), Code: badInput, Final: true}
		}
		output, err := function(ctx, task, input)
		if err != nil {
			return nil, err
		}
		return Output{output}, nil
	}
}
