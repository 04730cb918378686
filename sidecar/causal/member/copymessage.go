package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
)

// copyRequest asks a primary for a page of its storage. Harmless if lost, late or twice: each page is asked for until
// it is there, and the pages of an earlier copy have another id.
type copyRequest struct {
	From, To uint64 // volumes
	ID       uint64 // of the copy; the copies of a volume have ascending ones
	Page     uint64 // counted from 1
	After    string // where the page begins
}

// copyChunk is a page of a storage.
type copyChunk struct {
	From, To uint64
	ID, Page uint64
	// Restart: the page cannot be had any more. The other fields are empty.
	Restart bool
	// The copy is that of the storage at Start, whose record has Stamp, or later: keys may be as later changes up to
	// Exact have left them.
	Start   uint64
	Stamp   group.Stamp
	Exact   uint64
	Records []causal.Moved
	Meta    []Meta
	Next    string // where the next page begins; "": this is the last one
}

// life returns that of the source. A primary that has restarted may take a late request for the first page for a new
// copy, which is of another position than the pages that the other one has.
func (c *copyChunk) life() uint64 { return c.Start + 1 }

// placeOf returns the place of a page, whose number is not 0.
func placeOf(page uint64, after string) transfer.Place {
	return transfer.First().Follows(page-1, after)
}

// copyFormat is the version of the encoding of both. A reader refuses every other one.
const copyFormat = 1

const (
	copyKindRequest byte = iota + 1
	copyKindChunk
)

const flagRestart byte = 1 << 0

var errCopy = errors.New("damaged message about the copy of a storage")

// appendTo appends the encoding of r to dst: a byte for the format, a byte for the kind, then the fields, as in a
// Change.
func (r *copyRequest) appendTo(dst []byte) []byte {
	dst = append(dst, copyFormat, copyKindRequest)
	for _, n := range [...]uint64{r.From, r.To, r.ID, r.Page} {
		dst = binary.AppendUvarint(dst, n)
	}
	return appendBytes(dst, r.After)
}

func (c *copyChunk) appendTo(dst []byte) []byte {
	dst = append(slices.Grow(dst, c.sizeHint()), copyFormat, copyKindChunk)
	for _, n := range [...]uint64{c.From, c.To, c.ID, c.Page} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = append(dst, flagIf(c.Restart, flagRestart))
	for _, n := range [...]uint64{c.Start, c.Stamp.Epoch, c.Stamp.Life, c.Exact} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = appendMeta(appendBytes(dst, c.Next), c.Meta)
	dst = binary.AppendUvarint(dst, uint64(len(c.Records)))
	for i := range c.Records {
		dst = appendRecord(dst, 0, c.Records[i].Key, c.Records[i].Record)
	}
	return dst
}

// sizeHint is mostly above the size of an encoded chunk.
func (c *copyChunk) sizeHint() int {
	const fixed, perRecord, perMeta = 128, 32, 16
	n := fixed + len(c.Next)
	for i := range c.Records {
		n += perRecord + len(c.Records[i].Key) + len(c.Records[i].Record.Value.Data)
	}
	for i := range c.Meta {
		n += perMeta + len(c.Meta[i].Name) + len(c.Meta[i].Value)
	}
	return n
}

// parseCopy decodes a message: one of the results is not nil. Its data refers to b.
func parseCopy(b []byte) (*copyRequest, *copyChunk, error) {
	d, err := newReader(b, copyFormat, "message about the copy of a storage")
	if err != nil {
		return nil, nil, err
	}
	kind := d.Take(1)
	if kind == nil {
		return nil, nil, errCopy
	}
	from, to, id, page := d.Uvarint(), d.Uvarint(), d.Uvarint(), d.Uvarint()
	var request *copyRequest
	var chunk *copyChunk
	switch kind[0] {
	case copyKindRequest:
		request = &copyRequest{From: from, To: to, ID: id, Page: page, After: string(d.bytes())}
	case copyKindChunk:
		chunk = &copyChunk{From: from, To: to, ID: id, Page: page}
		d.chunk(chunk)
	default:
		return nil, nil, fmt.Errorf("message about the copy of a storage of the unknown kind %d", kind[0])
	}
	if !d.isComplete() || from == 0 || to == 0 || page == 0 {
		return nil, nil, errCopy
	}
	return request, chunk, nil
}

func (d *reader) chunk(c *copyChunk) {
	c.Restart = d.flags(flagRestart)&flagRestart != 0
	c.Start, c.Stamp, c.Exact, c.Next = d.Uvarint(), d.stamp(), d.Uvarint(), string(d.bytes())
	c.Meta = d.meta()
	const minBytes = 5 // of one record
	if n := d.Count(minBytes); n > 0 {
		c.Records = make([]causal.Moved, n)
	}
	for i := range c.Records {
		flags := d.flags(flagTombstone | flagType)
		c.Records[i].Key = string(d.bytes())
		c.Records[i].Record = d.record(flags)
	}
}
