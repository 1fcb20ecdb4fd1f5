// How what is read from the server goes on over new streams, after one that broke.

package taskyard

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// silenceTimeout is how long a stream may be silent before it counts as dead: the server sends a sign of life every 15 s.
const silenceTimeout = 45 * time.Second

// streams tells when the next stream of one reader begins.
type streams struct {
	client         *Client
	name           string // What is read, for logs.
	outage         *outage
	silenceTimeout time.Duration
	renewed        bool // The token was read anew since a stream worked last.
}

func newStreams(client *Client, name string) *streams {
	outage := newOutage(client.conn, client.patience)
	outage.isStream = true
	return &streams{client: client, name: name, outage: outage, silenceTimeout: silenceTimeout}
}

// works notes that a stream works.
func (s *streams) works() {
	s.outage.reset()
	s.renewed = false
}

// waitForNext waits until the next stream may begin, after one that ended with an error. It returns the error that ends the
// reading instead.
func (s *streams) waitForNext(ctx context.Context, err error) error {
	if err := ctx.Err(); err != nil {
		return ErrorFrom(err)
	}
	if s.client.conn.GetState() == connectivity.Shutdown {
		return err
	}
	switch CodeOf(err) {
	case CodeCursorExpired:
		// The reader begins anew.
	case CodeUnauthenticated:
		if s.renewed || !s.client.identity.token.renew() {
			return err
		}
		s.renewed = true
		s.client.log.Info("taskyard: "+s.name+" goes on with the token read anew", "error", err)
	case CodeUnavailable, CodeInternal, CodeCancelled, CodeDeadlineExceeded, CodeTooManyRequests:
		// The end of a server may show as any of these but the last.
		s.client.log.Info("taskyard: "+s.name+" goes on over a new stream", "error", err)
	default:
		return err
	}
	return s.outage.wait(ctx, err)
}

// receiveFrom returns the next message of a stream whose context cancel ends. A stream that is silent for too long is
// ended.
func receiveFrom[T any](stream grpc.ServerStreamingClient[T], cancel func(), timeout time.Duration) (*T, error) {
	silence := time.AfterFunc(timeout, cancel)
	message, err := stream.Recv()
	if !silence.Stop() && err != nil {
		return nil, unavailable("nothing was heard of the server for " + timeout.String())
	}
	return message, err
}
