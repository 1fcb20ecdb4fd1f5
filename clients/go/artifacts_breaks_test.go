// Artifacts across broken connections, and in the place of others, against the real server.

package taskyard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
)

// breaking calls a function before its second reading or writing.
type breaking struct {
	io.ReadSeeker
	io.Writer
	calls int
	cut   func()
}

func (b *breaking) count() {
	if b.calls++; b.calls == 2 {
		b.cut()
	}
}

func (b *breaking) Read(data []byte) (int, error) {
	b.count()
	return b.ReadSeeker.Read(data)
}

func (b *breaking) Write(data []byte) (int, error) {
	b.count()
	return b.Writer.Write(data)
}

func TestArtifactsOutlastBrokenConnections(t *testing.T) {
	proxy, ctx, data := startProxy(t, address), testContext(t), someBytes(3*artifactPartBytes+7)
	client := connect(t, proxy.address)
	submitted := must(client.Submit(ctx, NewTask{Action: "talk", Hold: true}))(t)
	content := &breaking{ReadSeeker: bytes.NewReader(data), cut: proxy.cut}
	must(client.AttachArtifact(ctx, submitted.ID, "data", content, ""))(t)
	var read bytes.Buffer
	to := &breaking{Writer: &read, cut: proxy.cut}
	if err := client.CopyArtifact(ctx, to, submitted.ID, "data"); err != nil || !bytes.Equal(read.Bytes(), data) {
		t.Error(err, read.Len())
	}
	if content.calls < 2 || to.calls < 2 {
		t.Error(content.calls, to.calls)
	}
}

func TestAnArtifactThatTakesThePlaceOfAnotherIsReadAnew(t *testing.T) {
	ctx, data, later := testContext(t), someBytes(2*artifactPartBytes), []byte("later")
	client := connect(t, address)
	submitted := must(client.Submit(ctx, NewTask{Action: "talk", Hold: true}))(t)
	attach := func(content []byte) {
		must(client.AttachArtifact(ctx, submitted.ID, "data", bytes.NewReader(content), ""))(t)
	}
	var replaced sync.Once
	replace := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		replaced.Do(func() { attach(later) })
		return open(ctx, desc, conn, method, options...)
	}
	reader := func() *Client {
		attach(data)
		replaced = sync.Once{}
		options := []Option{WithNamespace(client.namespace), WithDialOptions(grpc.WithChainStreamInterceptor(replace))}
		return connect(t, address, options...)
	}
	if read := must(reader().ReadArtifact(ctx, submitted.ID, "data"))(t); !bytes.Equal(read, later) {
		t.Errorf("%d bytes", len(read))
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := reader().SaveArtifact(ctx, submitted.ID, "data", path); err != nil {
		t.Fatal(err)
	}
	if saved := must(os.ReadFile(path))(t); !bytes.Equal(saved, later) {
		t.Errorf("%d bytes", len(saved))
	}
	if err := reader().CopyArtifact(ctx, io.Discard, submitted.ID, "data"); !errors.Is(err, errReplaced) {
		t.Error(err)
	}
}

func TestAnArtifactThatCannotBeSavedLeavesNoFile(t *testing.T) {
	client, ctx, folder := connect(t, address), testContext(t), t.TempDir()
	path := filepath.Join(folder, "data")
	if err := client.SaveArtifact(ctx, "tsk_none", "data", path); CodeOf(err) != CodeNotFound {
		t.Error(err)
	}
	if left := must(os.ReadDir(folder))(t); len(left) > 0 {
		t.Error(left)
	}
}
