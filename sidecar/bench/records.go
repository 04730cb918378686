package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// records are the keys of one load: a prefix and a number each. Their requests are written when they are needed, because a
// million of them ready-made would take more memory than what is measured.
type records struct {
	prefix string
	count  int
	value  []byte
}

func newRecords(count, valueBytes int) records {
	return records{prefix: fmt.Sprintf("user:%d:%d:", count, valueBytes), count: count, value: bytes.Repeat([]byte{'v'}, valueBytes)}
}

func (r records) key(dst []byte, i int) []byte {
	dst = append(dst, r.prefix...)
	return strconv.AppendInt(dst, int64(i), 10)
}

// get appends the request for key i to dst.
func (r records) get(dst []byte, i int) []byte {
	return r.bulk(append(dst, "*2\r\n$3\r\nGET\r\n"...), i)
}

// set appends the request that writes key i to dst.
func (r records) set(dst []byte, i int) []byte {
	dst = r.bulk(append(dst, "*3\r\n$3\r\nSET\r\n"...), i)
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(r.value)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, r.value...)
	return append(dst, "\r\n"...)
}

func (r records) bulk(dst []byte, i int) []byte {
	var key [96]byte
	k := r.key(key[:0], i)
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(k)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, k...)
	return append(dst, "\r\n"...)
}

// The connections to each data centre that records are written and read over, and how many requests go at once.
const (
	fillWriters = 8
	fillReaders = 8
	fillLot     = 256
)

// write sends every key once, each data centre a part of them. With apart, every key is a session of its own: without
// pipelining, a session's puts take a round trip each.
func (r records) write(ctx context.Context, addrs []string, apart bool) error {
	lot := fillLot
	if apart {
		lot = 1
	}
	all := fillWriters * len(addrs)
	return atOnce(all, func(number int) error {
		addr := addrs[number/fillWriters]
		from, to := number*r.count/all, (number+1)*r.count/all
		var conn net.Conn
		for at := from; at < to && ctx.Err() == nil; at += lot {
			if conn == nil || apart {
				if conn != nil {
					_ = conn.Close() // it has its answers
				}
				var err error
				if conn, err = net.DialTimeout("tcp", addr, 10*time.Second); err != nil {
					return err
				}
			}
			if err := r.writeLot(conn, at, min(lot, to-at)); err != nil {
				return errors.Join(fmt.Errorf("write keys: %w", err), conn.Close())
			}
		}
		if conn != nil {
			_ = conn.Close()
		}
		return ctx.Err()
	})
}

func (r records) writeLot(conn net.Conn, from, n int) error {
	var batch []byte
	for i := range n {
		batch = r.set(batch, from+i)
	}
	wrong, example, err := exchange(conn, batch, n, '+')
	if err == nil && wrong > 0 {
		err = fmt.Errorf("refused: %s", example)
	}
	return err
}

// read draws keys as the clients do, reads times in each data centre: what a deployment that runs for longer has cached.
func (r records) read(ctx context.Context, addrs []string, reads int, popular popularity, seed uint64) error {
	return atOnce(fillReaders*len(addrs), func(number int) error {
		conn, err := net.DialTimeout("tcp", addrs[number/fillReaders], 10*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		random := rand.New(rand.NewPCG(seed, uint64(number)))
		for left := reads / fillReaders; left > 0 && ctx.Err() == nil; left -= fillLot {
			var batch []byte
			n := min(fillLot, left)
			for range n {
				batch = r.get(batch, popular.draw(random))
			}
			wrong, example, err := exchange(conn, batch, n, '$')
			if err == nil && wrong > 0 {
				err = fmt.Errorf("%d of %d are missing: %s", wrong, n, example)
			}
			if err != nil {
				return fmt.Errorf("read keys: %w", err)
			}
		}
		return ctx.Err()
	})
}

// atOnce runs f for every number below n at a time.
func atOnce(n int, f func(number int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range errs {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// exchange sends n requests at once and takes their replies. It returns how many were not of the wanted type, and an example.
func exchange(conn net.Conn, batch []byte, n int, want byte) (wrong int, example string, err error) {
	if err := conn.SetDeadline(time.Now().Add(stall)); err != nil {
		return 0, "", err
	}
	if _, err := conn.Write(batch); err != nil {
		return 0, "", err
	}
	in := make([]byte, 64<<10)
	for got := 0; n > 0; {
		read, err := conn.Read(in[got:])
		if err != nil {
			return wrong, example, err
		}
		got += read
		replies, bad, used, err := skipReplies(in[:got], n, want)
		if err != nil {
			return wrong, example, err
		}
		if bad > 0 {
			wrong, example = wrong+bad, fmt.Sprintf("%.80q", in[:used])
		}
		if replies == 0 && got == len(in) {
			return wrong, example, errors.New("a reply does not fit the buffer")
		}
		n, got = n-replies, copy(in, in[used:got])
	}
	return wrong, example, nil
}
