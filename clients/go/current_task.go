// The task that a handler runs, in the context of what it calls: tasks that it submits name it as their parent.

package taskyard

import "context"

type currentTaskKey struct{}

// CurrentTask returns the task whose handler was given this context, or one that it was made from; nil outside of
// handlers. Tasks that are submitted with such a context have the task as their parent, unless they name another.
func CurrentTask(ctx context.Context) *RunningTask {
	task, _ := ctx.Value(currentTaskKey{}).(*RunningTask)
	return task
}

func withCurrentTask(ctx context.Context, task *RunningTask) context.Context {
	return context.WithValue(ctx, currentTaskKey{}, task)
}
