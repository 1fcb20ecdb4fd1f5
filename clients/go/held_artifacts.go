// Artifacts of the tasks of a host, and params and results that are artifacts since they are too large (docs/rules.md,
// Artifacts).

package taskyard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// paramsArtifact is the name of the artifact that params are.
	paramsArtifact = "params.json"
	// resultArtifact is that of a result.
	resultArtifact = "result.json"
)

// heldArtifacts are the artifacts of a task that a host has under a lease, or of an input of it.
type heldArtifacts struct {
	client *Client
	hostID string
	lease  leaseKey
	input  string // The name of the input; "" for the task itself.

	mu   sync.Mutex
	sums map[string]string // The hashes of all artifacts by their names.
}

func newHeldArtifacts(client *Client, hostID string, lease leaseKey, artifacts []Artifact) *heldArtifacts {
	held := &heldArtifacts{client: client, hostID: hostID, lease: lease, sums: map[string]string{}}
	for _, each := range artifacts {
		held.sums[each.Name] = each.SHA256
	}
	return held
}

// PutArtifact gives the task an artifact, in the place of an earlier one of this name. The media type is
// "application/octet-stream" if it is "". The error is an *[Error]: [CodeBadRequest] for a malformed name,
// [CodeTooLarge], [CodeConflict] if the server keeps no artifacts, [CodeLeaseLost]; or that of the content; or [ErrParked].
func (t *RunningTask) PutArtifact(
	ctx context.Context, name string, content io.ReadSeeker, mediaType string,
) (*Artifact, error) {
	if t.waits.isParked() {
		return nil, goesOn("artifact", name)
	}
	return t.putArtifact(ctx, name, content, mediaType)
}

func (t *RunningTask) putArtifact(
	ctx context.Context, name string, content io.ReadSeeker, mediaType string,
) (*Artifact, error) {
	put, err := t.held.put(ctx, "", name, content, mediaType)
	if put != nil {
		t.held.mu.Lock()
		t.held.sums[name] = put.SHA256
		t.held.mu.Unlock()
	}
	return put, err
}

// put uploads an artifact of a child of the task that is held, or of the task itself for the child "".
func (h *heldArtifacts) put(
	ctx context.Context, child, name string, content io.ReadSeeker, mediaType string,
) (*Artifact, error) {
	return uploadArtifact(content, func(part artifactPart) (*taskyardv1.Artifact, error) {
		answer, err := h.client.artifacts.UploadArtifact(ctx, &taskyardv1.UploadArtifactRequest{
			HostId: h.hostID, TaskId: h.lease.taskID, FencingToken: float64(h.lease.token), Name: name, Child: child,
			Offset: float64(part.offset), SizeBytes: float64(part.size), Sha256: part.sum,
			Content: &httpbody.HttpBody{ContentType: mediaType, Data: part.data},
		})
		return answer.GetArtifact(), err
	})
}

// ReadArtifact returns the bytes of an artifact of the task: one that was attached to it, or that it was given in any
// attempt or run. It has checked their hash. The error is an *[Error]: [CodeNotFound], [CodeLeaseLost].
func (t *RunningTask) ReadArtifact(ctx context.Context, name string) ([]byte, error) {
	return t.held.read(ctx, name)
}

func (h *heldArtifacts) read(ctx context.Context, name string) ([]byte, error) {
	var found bytes.Buffer
	err := untilWhole(func() error {
		found.Reset()
		if err := h.copyTo(ctx, &found, name); err != nil {
			return err
		}
		sum := sha256.Sum256(found.Bytes())
		h.mu.Lock()
		defer h.mu.Unlock()
		if known := h.sums[name]; known != "" && known != hex.EncodeToString(sum[:]) {
			return errReplaced
		}
		return nil
	})
	return found.Bytes(), err
}

func (h *heldArtifacts) copyTo(ctx context.Context, to io.Writer, name string) error {
	return h.client.copyArtifact(ctx, to, func(ctx context.Context, offset float64) (artifactStream, error) {
		return h.client.artifacts.FetchArtifact(ctx, &taskyardv1.FetchArtifactRequest{
			HostId: h.hostID, TaskId: h.lease.taskID, FencingToken: float64(h.lease.token), Name: name, Offset: offset,
			Input: h.input,
		})
	})
}

// fetchParams puts the params in their place, if they are an artifact.
func (t *RunningTask) fetchParams(ctx context.Context) error {
	reference := t.referenceIn(t.Params, paramsArtifact)
	if reference == nil {
		return nil
	}
	data, err := t.ReadArtifact(ctx, paramsArtifact)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != reference.SHA256 {
		return errReplaced
	}
	if t.Params = nil; reference.Encoding == "" {
		if !json.Valid(data) {
			return errors.New("the artifact is no JSON")
		}
		if object := new(structpb.Struct); firstInexact(data, "") == "" && object.UnmarshalJSON(data) == nil {
			t.Params = object.AsMap()
			return nil
		}
	}
	t.Input = &Payload{Data: data, Encoding: reference.Encoding}
	return nil
}

// maxPayloadBytes returns how large a result may be, 0 if the server has not told.
func (r *hostRun) maxPayloadBytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session.maxPayloadBytes
}

// shrink makes an artifact of a result that is too large, and refers to it.
func (r *hostRun) shrink(ctx context.Context, task *RunningTask, outcome *taskyardv1.Report) *taskyardv1.Report {
	done := outcome.GetCompleted()
	most := r.maxPayloadBytes()
	if done == nil || most == 0 || proto.Size(done.Result)+proto.Size(done.Output) <= most {
		return outcome
	}
	result, err := task.putValue(ctx, resultArtifact, done.Result, done.Output)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		reason := "the result is too large, and cannot be an artifact: " + err.Error()
		return task.failed(&ActionFailed{Reason: reason, Code: badResult, Final: true}, "")
	}
	done.Result, done.Output = result, nil
	return outcome
}

// putValue makes an artifact of a value that is too large, and returns the reference that stands in its place.
func (t *RunningTask) putValue(
	ctx context.Context, name string, value *structpb.Value, payload *taskyardv1.Payload,
) (*structpb.Value, error) {
	data := payload.GetData()
	if payload == nil {
		var err error
		if data, err = json.Marshal(value.AsInterface()); err != nil {
			return nil, err
		}
	}
	artifact, err := t.putArtifact(ctx, name, bytes.NewReader(data), "application/json")
	if err != nil {
		return nil, err
	}
	told := map[string]any{
		"name": name, "sizeBytes": float64(artifact.Size), "sha256": artifact.SHA256,
		"href": "/tasks/" + t.ID + "/artifacts/" + name,
	}
	if encoding := payload.GetEncoding(); encoding != "" {
		told["encoding"] = encoding
	}
	return structpb.NewValue(map[string]any{"$artifact": told})
}

// withResult returns a task that has ended with its result, also where that is an artifact.
func (c *Client) withResult(ctx context.Context, task *Task) (*Task, error) {
	return withResult(task, func() ([]byte, error) { return c.ReadArtifact(ctx, task.ID, resultArtifact) })
}

// withResult gives a task that has ended its result, where read reads that since it is an artifact.
func withResult(task *Task, read func() ([]byte, error)) (*Task, error) {
	reference := task.referenceIn(task.Result, resultArtifact)
	// A handler may return what looks like a reference.
	if reference == nil || task.Output != nil || !task.hasArtifact(resultArtifact, reference.SHA256) {
		return task, nil
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	task.Output = &Payload{Data: data, Encoding: reference.Encoding}
	return task, nil
}

// artifactReference stands in the place of a value that is an artifact.
type artifactReference struct{ SHA256, Encoding string }

// referenceIn returns the reference that a value is to the artifact of this name, nil if it is none, or the task has no
// such artifact.
func (t *Task) referenceIn(value any, name string) *artifactReference {
	object, _ := value.(map[string]any)
	told, ok := object["$artifact"].(map[string]any)
	if !ok || len(object) != 1 {
		return nil
	}
	text := func(key string) string {
		found, _ := told[key].(string)
		return found
	}
	hasName := func(each Artifact) bool { return each.Name == name }
	if text("name") != name || !slices.ContainsFunc(t.Artifacts, hasName) {
		return nil
	}
	return &artifactReference{text("sha256"), text("encoding")}
}

// hasArtifact reports whether the task has an artifact with this name and hash.
func (t *Task) hasArtifact(name, sum string) bool {
	return slices.ContainsFunc(t.Artifacts, func(each Artifact) bool { return each.Name == name && each.SHA256 == sum })
}
