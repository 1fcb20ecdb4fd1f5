// Artifacts of tasks: values of any size under a name (docs/rules.md, Artifacts).

package taskyard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	taskyardv1 "github.com/taskyard/taskyard/clients/go/v1"
)

const (
	// artifactPartBytes is the size of all parts of an artifact but the last.
	artifactPartBytes = 1 << 20
	// artifactTries is how often an upload or a reading begins.
	artifactTries = 5
)

// Artifact is a value of any size that a task has under a name: a file, an image, a result that is too large.
type Artifact struct {
	// Name is what no other artifact of the task is called.
	Name string
	// MediaType is such as "image/png".
	MediaType string
	// Size counts the bytes.
	Size int64
	// SHA256 is the hash of the bytes, in hex.
	SHA256 string
	// Attempt is the number of the execution that put it, from 1; 0 if the submitter put it.
	Attempt int
	// CreatedAt is when it was complete.
	CreatedAt time.Time
}

// errReplaced means that an artifact has other bytes than its hash says: another one took its place while it was read.
var errReplaced = errors.New("the artifact has other bytes than its hash says")

// errNotWritten means that who reads an artifact takes no more of it.
var errNotWritten = errors.New("the bytes of the artifact cannot be written")

// ReadArtifact returns the bytes of an artifact, across broken connections. It has checked their hash. Codes:
// [CodeNotFound].
func (c *Client) ReadArtifact(ctx context.Context, taskID, name string) ([]byte, error) {
	var found bytes.Buffer
	err := untilWhole(func() error {
		found.Reset()
		return c.CopyArtifact(ctx, &found, taskID, name)
	})
	return found.Bytes(), err
}

// SaveArtifact writes an artifact to a file, which is there only once it is whole, across broken connections. The error is
// that of [Client.ReadArtifact], or of the file.
func (c *Client) SaveArtifact(ctx context.Context, taskID, name, path string) error {
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+newKey())
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = untilWhole(func() error {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := file.Truncate(0); err != nil {
			return err
		}
		return c.CopyArtifact(ctx, file, taskID, name)
	})
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// untilWhole reads an artifact, anew while another one takes its place.
func untilWhole(read func() error) error {
	for left := artifactTries - 1; ; left-- {
		if err := read(); !errors.Is(err, errReplaced) || left == 0 {
			return err
		}
	}
}

// CopyArtifact writes the bytes of an artifact as they come, across broken connections. An error after the last one says
// that they do not have the hash of the artifact, since another one took its place meanwhile. Codes: [CodeNotFound].
func (c *Client) CopyArtifact(ctx context.Context, to io.Writer, taskID, name string) error {
	task, err := c.Get(ctx, taskID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(task.Artifacts, func(each Artifact) bool { return each.Name == name })
	if i < 0 {
		return &Error{
			Code: CodeNotFound, Reason: "artifact not found", Details: map[string]any{}, Status: codes.NotFound,
		}
	}
	hash := sha256.New()
	err = c.copyArtifact(ctx, io.MultiWriter(hash, to), func(ctx context.Context, offset float64) (artifactStream, error) {
		return c.artifacts.ReadArtifact(ctx, &taskyardv1.ReadArtifactRequest{TaskId: taskID, Name: name, Offset: offset})
	})
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != task.Artifacts[i].SHA256 {
		return errReplaced
	}
	return err
}

// artifactStream brings the bytes of an artifact.
type artifactStream = grpc.ServerStreamingClient[httpbody.HttpBody]

// copyArtifact writes the bytes that streams bring, each of which begins behind those of the one before.
func (c *Client) copyArtifact(
	ctx context.Context, to io.Writer, begin func(context.Context, float64) (artifactStream, error),
) error {
	streams, offset := newStreams(c, "the reading of an artifact"), 0
	for {
		written, err := copyStream(ctx, to, float64(offset), streams, begin)
		offset += written
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errNotWritten) {
			return err
		}
		if code := CodeOf(err); offset > 0 && (code == CodeNotFound || code == CodeOutOfRange) {
			return errReplaced
		}
		if err = streams.waitForNext(ctx, err); err != nil {
			return err
		}
	}
}

// copyStream writes the bytes that one stream brings, and returns how many. The error is [io.EOF] at the end.
func copyStream(
	ctx context.Context, to io.Writer, offset float64, streams *streams,
	begin func(context.Context, float64) (artifactStream, error),
) (written int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := begin(ctx, offset)
	if err != nil {
		return 0, errorFrom(err)
	}
	for {
		body, err := receiveFrom(stream, cancel, streams.silenceTimeout)
		if errors.Is(err, io.EOF) {
			return written, io.EOF
		}
		if err != nil {
			return written, errorFrom(err)
		}
		streams.works()
		if _, err := to.Write(body.GetData()); err != nil {
			return written, fmt.Errorf("%w: %w", errNotWritten, err)
		}
		written += len(body.GetData())
	}
}

// AttachArtifact gives a held task an artifact, which its host can read; resume the task then. The media type is
// "application/octet-stream" if it is "". Codes: [CodeNotFound], [CodeConflict] if the task is not held or the server
// keeps no artifacts, [CodeTooLarge].
func (c *Client) AttachArtifact(
	ctx context.Context, taskID, name string, content io.ReadSeeker, mediaType string,
) (*Artifact, error) {
	return uploadArtifact(content, func(part artifactPart) (*taskyardv1.Artifact, error) {
		answer, err := c.artifacts.AttachArtifact(ctx, &taskyardv1.AttachArtifactRequest{
			TaskId: taskID, Name: name, Offset: float64(part.offset), SizeBytes: float64(part.size), Sha256: part.sum,
			Content: &httpbody.HttpBody{ContentType: mediaType, Data: part.data},
		})
		return answer.GetArtifact(), err
	})
}

// artifactPart is a part of an artifact. The last one has the hash of the whole, whose size is size.
type artifactPart struct {
	offset, size int64
	data         []byte
	sum          string
}

// uploadArtifact sends an artifact in parts, and begins anew where the server has less of it than it said.
func uploadArtifact(
	content io.ReadSeeker, send func(artifactPart) (*taskyardv1.Artifact, error),
) (*Artifact, error) {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	for left := artifactTries - 1; ; left-- {
		artifact, err := sendParts(content, size, send)
		if CodeOf(err) != CodeBadRequest || !strings.HasPrefix(asError(err).Reason, "offset:") || left == 0 {
			return artifact, err
		}
	}
}

func sendParts(
	content io.ReadSeeker, size int64, send func(artifactPart) (*taskyardv1.Artifact, error),
) (*Artifact, error) {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	hash := sha256.New()
	for offset := int64(0); ; {
		data := make([]byte, min(artifactPartBytes, size-offset))
		if _, err := io.ReadFull(content, data); err != nil {
			return nil, err
		}
		hash.Write(data)
		part := artifactPart{offset: offset, size: size, data: data}
		offset += int64(len(data))
		if offset == size {
			part.sum = hex.EncodeToString(hash.Sum(nil))
		}
		artifact, err := send(part)
		if err != nil || offset == size {
			return artifactOf(artifact), err
		}
	}
}

// artifactOf returns an artifact as the server shows it, nil for none.
func artifactOf(m *taskyardv1.Artifact) *Artifact {
	if m == nil {
		return nil
	}
	return &Artifact{
		Name: m.GetName(), MediaType: m.GetMediaType(), Size: int64(m.GetSizeBytes()), SHA256: m.GetSha256(),
		Attempt: int(m.GetAttempt()), CreatedAt: timeOf(m.GetCreatedAt()),
	}
}
