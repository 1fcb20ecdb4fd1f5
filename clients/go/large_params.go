// Submissions whose params are too large for a message: they become an artifact of the task (docs/rules.md, Artifacts).

package taskyard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

// maxParamsBytes is up to which size, encoded, params are submitted as they are; a server may take fewer.
const maxParamsBytes = 262_144

// refusalOfParams is how the error begins of a task whose params the server does not take.
var refusalOfParams = regexp.MustCompile(`^(tasks\[\d+\]\.|child\.)?(params|input):`)

func refusesParams(err error) bool {
	return CodeOf(err) == CodeTooLarge && refusalOfParams.MatchString(asError(err).Reason)
}

// sizeOfParams returns the bytes of what a task has as params and input, encoded.
func sizeOfParams(task *taskyardv1.SubmitTaskRequest) int {
	return proto.Size(task.GetParams()) + proto.Size(task.GetInput())
}

// submitAnySize submits a task, whatever the size of its params. A task whose params become an artifact is held until they
// are there: a repeat under the same idempotency key goes on where the first one was. isRepeatable tells that the caller
// knows the key, so that an outage may leave the task held.
func (c *Client) submitAnySize(
	ctx context.Context, request *taskyardv1.SubmitTaskRequest, isRepeatable bool,
) (*taskyardv1.SubmitTaskResponse, error) {
	if sizeOfParams(request) <= maxParamsBytes {
		answer, err := c.submitter.submit(ctx, request)
		if !refusesParams(err) {
			return answer, err
		}
	}
	held, data, err := heldRequest(request)
	if err != nil {
		return nil, badRequest("params: " + err.Error())
	}
	accepted, err := c.submitter.submit(ctx, held)
	if err == nil {
		if accepted.GetExisting() || accepted.GetState() != taskyardv1.Task_pending {
			// A repeat, or the unique key is taken: the task has its params.
			return accepted, nil
		}
		var isHeld bool
		if isHeld, err = c.attachParams(ctx, accepted.GetTaskId(), data); err == nil && isHeld && !request.GetHold() {
			err = c.release(ctx, accepted)
		}
	}
	if err == nil {
		return accepted, nil
	}
	if mayComeBack := asError(err).mayPass() || CodeOf(err) == CodeDeadlineExceeded; mayComeBack && isRepeatable {
		return nil, err
	} else if mayComeBack || accepted != nil {
		c.cancelHeld(ctx, held, accepted.GetTaskId())
	}
	return nil, err
}

// cancelHeld cancels a task that nobody can run without its params. One whose id was not told is found by its key.
func (c *Client) cancelHeld(ctx context.Context, held *taskyardv1.SubmitTaskRequest, taskID string) {
	if taskID == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		found, err := c.submitter.submit(ctx, held)
		if err != nil || found.GetExisting() {
			return
		}
		taskID = found.GetTaskId()
	}
	c.cancelAbandoned(ctx, taskID)
}

// heldRequest returns the request with a reference to its params, and these.
func heldRequest(request *taskyardv1.SubmitTaskRequest) (*taskyardv1.SubmitTaskRequest, []byte, error) {
	data := request.GetInput().GetData()
	if request.Input == nil {
		var err error
		// The same for a repeat by another process: the keys are sorted.
		if data, err = json.Marshal(request.GetParams().AsMap()); err != nil {
			return nil, nil, err
		}
	}
	sum := sha256.Sum256(data)
	told := map[string]any{
		"name": paramsArtifact, "sizeBytes": float64(len(data)), "sha256": hex.EncodeToString(sum[:]),
	}
	if encoding := request.GetInput().GetEncoding(); encoding != "" {
		told["encoding"] = encoding
	}
	held := proto.CloneOf(request)
	held.Input, held.Hold = nil, proto.Bool(true)
	var err error
	held.Params, err = structpb.NewStruct(map[string]any{"$artifact": told})
	return held, data, err
}

// attachParams gives a held task its params. It returns false if an earlier try has let the task go.
func (c *Client) attachParams(ctx context.Context, taskID string, data []byte) (isHeld bool, err error) {
	_, err = c.AttachArtifact(ctx, taskID, paramsArtifact, bytes.NewReader(data), "application/json")
	code := CodeOf(err)
	if code == CodeConflict && !c.mayBeHeld(ctx, taskID) {
		return false, nil
	}
	if code == CodeConflict || code == CodeUnimplemented {
		return true, noArtifact(err)
	}
	return true, err
}

// noArtifact returns the error for params that cannot become an artifact, for the refusal of that.
func noArtifact(err error) error {
	refused := *asError(err)
	refused.Code = CodeTooLarge
	refused.Reason = "params: are so large that they would be an artifact, but " + refused.Reason
	return &refused
}

// release lets a task go that has its params.
func (c *Client) release(ctx context.Context, accepted *taskyardv1.SubmitTaskResponse) error {
	taskID, isRepeat := accepted.GetTaskId(), false
	_, err := retryWhileUnavailable(ctx, c.conn, c.patience, func(ctx context.Context) error {
		// Later it could be a failure that is resumed.
		if isRepeat && !c.mayBeHeld(ctx, taskID) {
			return nil
		}
		isRepeat = true
		answer, err := c.tasks.ResumeTask(ctx, &taskyardv1.ResumeTaskRequest{TaskId: taskID})
		if err == nil {
			accepted.State = answer.Status
		}
		return err
	})
	if CodeOf(err) == CodeConflict && !c.mayBeHeld(ctx, taskID) {
		return nil
	}
	return err
}

// mayBeHeld reports whether a task is held, also where that cannot be found out.
func (c *Client) mayBeHeld(ctx context.Context, taskID string) bool {
	task, err := c.Get(ctx, taskID)
	return err != nil || task.Hold
}
