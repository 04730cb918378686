package transport

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// codec lets gRPC carry frames that are encoded already. What it puts on the wire is what generated code would for
// wire.proto, and it has the name of that encoding.
type codec struct{}

func (codec) Name() string { return "proto" }

// Marshal gives the buffer of a frame away; gRPC puts it back into the pool when it has been written.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *frame:
		return mem.BufferSlice{mem.NewBuffer(&v.batch.Buf, frameBuffers{})}, nil
	case *wire.Hello:
		return mem.BufferSlice{mem.SliceBuffer(wire.AppendHello(nil, v))}, nil
	}
	return nil, fmt.Errorf("a %T is no frame", v)
}

// inbox is where gRPC puts a frame that has come in.
type inbox struct {
	hello    *wire.Hello // nil until the first frame has come in, which must be one
	messages *[]causal.Message
	size     int
}

// Unmarshal decodes at once, because the buffers are taken back when it returns. Nothing that is decoded refers to them.
func (codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	in, ok := v.(*inbox)
	if !ok {
		return fmt.Errorf("a %T is no inbox", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	in.size = b.Len()
	if in.hello == nil {
		in.hello, err = wire.DecodeHello(b.ReadOnlyData())
		return err
	}
	// The room for the messages is shared by all links: there may be thousands, and few are busy at a time.
	in.messages = batches.Get().(*[]causal.Message)
	*in.messages, err = wire.DecodeBatch(b.ReadOnlyData(), *in.messages)
	return err
}

// reset forgets the messages.
func (in *inbox) reset() {
	clear(*in.messages)
	*in.messages = (*in.messages)[:0]
	batches.Put(in.messages)
	in.messages = nil
}

const (
	// A new buffer holds a few messages. gRPC does not pool buffers of up to 1 KiB, so it must be greater than that.
	smallBuffer = 4 << 10
	// A greater buffer carried a great value, and is not kept for small ones.
	greatBuffer = 2 * frameBytes
)

var framePool = sync.Pool{New: func() any { b := make([]byte, 0, smallBuffer); return &b }}

// frameBuffers is framePool as gRPC wants it.
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
	if cap(*b) <= greatBuffer {
		*b = (*b)[:0]
		framePool.Put(b)
	}
}

func newFrame() *frame {
	return &frame{batch: wire.Batch{Buf: (*framePool.Get().(*[]byte))[:0]}}
}
