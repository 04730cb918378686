package transport

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// codec makes gRPC carry frames that are already encoded. The bytes on the wire are those of generated code for
// wire.proto, so it uses the name of that encoding.
type codec struct{}

func (codec) Name() string { return "proto" }

// Marshal transfers the buffer of a frame to gRPC, which releases the frame after writing it.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *frame:
		return mem.BufferSlice{mem.NewBuffer(&v.batch.Buf, (*sentFrame)(v))}, nil
	case *wire.Hello:
		return mem.BufferSlice{mem.SliceBuffer(wire.AppendHello(nil, v))}, nil
	}
	return nil, fmt.Errorf("cannot encode a %T", v)
}

// wholePool has room for a received frame while it is decoded. The pool of gRPC would clear it first, and take 1 MiB
// for each.
var wholePool = sync.Pool{New: func() any { return new([]byte) }}

// receivedFrame is a received frame, decoded.
type receivedFrame struct {
	hello    *wire.Hello // nil until the first frame, which must be a hello
	messages *[]causal.Message
	control  wire.Control
	size     int
	// malformed is why the last frame was not decoded.
	malformed error
	// decoding is where the frame takes room until it is released; taken is how much.
	decoding decodingRoom
	taken    int64
}

// Unmarshal decodes a frame to a receivedFrame. gRPC reuses the buffers after it returns, so the decoded messages do
// not alias them. A panic costs the peer the link: nothing but the frame has been touched.
func (codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	in, ok := v.(*receivedFrame)
	if !ok {
		return fmt.Errorf("cannot decode to a %T", v)
	}
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
			in.decoding.end(in.taken)
			in.taken = 0
		}
		in.malformed = err
	}()
	var b []byte
	if len(data) == 1 {
		b = data[0].ReadOnlyData()
	} else { // it came in several HTTP/2 frames
		whole := wholePool.Get().(*[]byte)
		defer func() {
			if cap(*whole) <= maxPooledBuffer {
				wholePool.Put(whole)
			}
		}()
		*whole = slices.Grow((*whole)[:0], data.Len())[:data.Len()]
		data.CopyTo(*whole)
		b = *whole
	}
	in.size = len(b)
	if in.hello == nil {
		in.hello, err = wire.DecodeHello(b)
		return err
	}
	// All links share the pool of batches: there may be thousands of links, and few are busy at a time.
	in.taken = in.decoding.begin(len(b))
	in.messages = batches.Get().(*[]causal.Message)
	if *in.messages, in.control, err = wire.DecodeFrame(b, *in.messages); err != nil {
		in.release()
		return err
	}
	in.taken = in.decoding.keep(in.taken, in.control.Memory)
	return err
}

// release returns the batch of messages to the pool.
func (in *receivedFrame) release() {
	clear(*in.messages)
	*in.messages = (*in.messages)[:0]
	batches.Put(in.messages)
	in.messages = nil
	in.decoding.end(in.taken)
	in.taken = 0
}

const (
	// initialBuffer is the size of a new buffer, which holds a few messages. gRPC releases only buffers of more than 1
	// KiB to the pool.
	initialBuffer = 4 << 10
	// maxPooledBuffer is the largest buffer to pool. A larger one held a large value, and would be wasted on small
	// ones.
	maxPooledBuffer = 2 * frameBytes
)

var framePool = sync.Pool{New: func() any { return &frame{batch: wire.Batch{Buf: make([]byte, 0, initialBuffer)}} }}

// newFrame returns an empty frame. It is used again once the pump and gRPC have released it.
func newFrame() *frame {
	f := framePool.Get().(*frame)
	f.users.Store(2)
	return f
}

// release ends one of the two uses of a frame.
func (f *frame) release() {
	if f.users.Add(-1) > 0 || cap(f.batch.Buf) > maxPooledBuffer {
		return
	}
	*f = frame{batch: wire.Batch{Buf: f.batch.Buf[:0]}, kinds: f.kinds[:0]}
	framePool.Put(f)
}

// sentFrame is a frame as the pool of its buffer: gRPC returns that when it has written it.
type sentFrame frame

// Get implements mem.BufferPool. gRPC only returns the buffer.
func (*sentFrame) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put implements mem.BufferPool.
func (f *sentFrame) Put(*[]byte) {
	f.from.written((*frame)(f))
	(*frame)(f).release()
}
