package transport

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// codec makes gRPC carry frames that are already encoded. The bytes on the wire are those of generated code for wire.proto,
// so it uses the name of that encoding.
type codec struct{}

func (codec) Name() string { return "proto" }

// Marshal transfers the buffer of a frame to gRPC, which returns it to the pool after writing it.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *frame:
		return mem.BufferSlice{mem.NewBuffer(&v.batch.Buf, frameBuffers{})}, nil
	case *wire.Hello:
		return mem.BufferSlice{mem.SliceBuffer(wire.AppendHello(nil, v))}, nil
	}
	return nil, fmt.Errorf("cannot encode a %T", v)
}

// receivedFrame is a received frame, decoded.
type receivedFrame struct {
	hello    *wire.Hello // nil until the first frame, which must be a hello
	messages *[]causal.Message
	control  wire.Control
	size     int
}

// Unmarshal decodes a frame to a receivedFrame. gRPC reuses the buffers after it returns, so the decoded messages do not alias
// them.
func (codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	in, ok := v.(*receivedFrame)
	if !ok {
		return fmt.Errorf("cannot decode to a %T", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	in.size = b.Len()
	if in.hello == nil {
		in.hello, err = wire.DecodeHello(b.ReadOnlyData())
		return err
	}
	// All links share the pool of batches: there may be thousands of links, and few are busy at a time.
	in.messages = batches.Get().(*[]causal.Message)
	*in.messages, in.control, err = wire.DecodeFrame(b.ReadOnlyData(), *in.messages)
	return err
}

// release returns the batch of messages to the pool.
func (in *receivedFrame) release() {
	clear(*in.messages)
	*in.messages = (*in.messages)[:0]
	batches.Put(in.messages)
	in.messages = nil
}

const (
	// initialBuffer is the size of a new buffer, which holds a few messages. gRPC releases only buffers of more than 1 KiB to
	// the pool.
	initialBuffer = 4 << 10
	// maxPooledBuffer is the largest buffer to pool. A larger one held a large value, and would be wasted on small ones.
	maxPooledBuffer = 2 * frameBytes
)

var framePool = sync.Pool{New: func() any { b := make([]byte, 0, initialBuffer); return &b }}

// frameBuffers is framePool with the interface that gRPC requires.
type frameBuffers struct{}

func (frameBuffers) Get(n int) *[]byte {
	b := framePool.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return b
}

func (frameBuffers) Put(b *[]byte) {
	if cap(*b) <= maxPooledBuffer {
		*b = (*b)[:0]
		framePool.Put(b)
	}
}

func newFrame() *frame {
	return &frame{batch: wire.Batch{Buf: (*framePool.Get().(*[]byte))[:0]}}
}
