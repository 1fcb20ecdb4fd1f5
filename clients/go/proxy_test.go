// A TCP proxy that breaks connections.

package taskyard

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a TCP proxy that can cut its connections, and refuse new ones.
type proxy struct {
	address string
	// refused gets an item for each refused connection, if it is empty.
	refused chan struct{}

	target   string
	listener net.Listener
	mu       sync.Mutex
	blocked  bool
	open     map[net.Conn]bool
	pumps    sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	checkForLeaks(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{
		address: listener.Addr().String(), refused: make(chan struct{}, 1), target: target, listener: listener,
		open: map[net.Conn]bool{},
	}
	p.pumps.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.pumps.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		blocked := p.blocked
		p.mu.Unlock()
		if blocked {
			_ = near.Close()
			select {
			case p.refused <- struct{}{}:
			default:
			}
			continue
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.open[near], p.open[far] = true, true
		p.mu.Unlock()
		p.pumps.Go(func() { p.pump(near, far) })
		p.pumps.Go(func() { p.pump(far, near) })
	}
}

func (p *proxy) pump(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, from)
	delete(p.open, to)
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

// block breaks all connections and refuses new ones until unblock.
func (p *proxy) block() {
	p.mu.Lock()
	p.blocked = true
	p.mu.Unlock()
	p.cut()
}

func (p *proxy) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = false
}
