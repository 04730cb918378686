package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Values is how long values are: Bytes, or evenly distributed from Min to Max, or by Sizes.
type Values struct {
	Bytes int         `json:"bytes"`
	Min   int         `json:"min"`
	Max   int         `json:"max"`
	Sizes []SizeShare `json:"sizes"`
}

// SizeShare is a share of values of a size.
type SizeShare struct {
	Bytes int     `json:"bytes"`
	Share float64 `json:"share"`
}

// TTLShare is a share of writes with a time to live.
type TTLShare struct {
	TTL   Duration `json:"ttl"`
	Share float64  `json:"share"`
}

// mostValueBytes bounds values, and with them the memory of the load generator itself.
const mostValueBytes = 16 << 20

func (v *Values) check() error {
	ways := 0
	for _, given := range []bool{v.Bytes != 0, v.Min != 0 || v.Max != 0, len(v.Sizes) > 0} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("values: give bytes, or min and max, or sizes, but only one of them")
	}
	if v.Min > v.Max {
		return fmt.Errorf("values: min %d is above max %d", v.Min, v.Max)
	}
	sum := 0.0
	for _, s := range v.Sizes {
		if !(s.Share > 0) {
			return fmt.Errorf("values: sizes: share %g of %d bytes: it must be above 0", s.Share, s.Bytes)
		}
		sum += s.Share
	}
	if len(v.Sizes) > 0 && !isOne(sum) {
		return fmt.Errorf("values: sizes: the shares add up to %.4g: they must add up to 1", sum)
	}
	if least, most := v.bounds(); least < 0 || most > mostValueBytes {
		return fmt.Errorf("values of %d to %d bytes: sizes must be between 0 and %d", least, most, mostValueBytes)
	}
	return nil
}

func (v *Values) bounds() (least, most int) {
	least, most = v.Bytes, v.Bytes
	if v.Max > 0 {
		least, most = v.Min, v.Max
	}
	for i, s := range v.Sizes {
		if i == 0 {
			least, most = s.Bytes, s.Bytes
		}
		least, most = min(least, s.Bytes), max(most, s.Bytes)
	}
	return least, most
}

func (v *Values) mean() float64 {
	if len(v.Sizes) == 0 {
		least, most := v.bounds()
		return float64(least+most) / 2
	}
	mean := 0.0
	for _, s := range v.Sizes {
		mean += float64(s.Bytes) * s.Share
	}
	return mean
}

// draw returns the size of a value.
func (v *Values) draw(r *rand.Rand) int {
	if len(v.Sizes) == 0 {
		least, most := v.bounds()
		if least == most {
			return least
		}
		return least + r.IntN(most-least+1)
	}
	p := r.Float64()
	for _, s := range v.Sizes {
		if p -= s.Share; p < 0 {
			return s.Bytes
		}
	}
	return v.Sizes[len(v.Sizes)-1].Bytes
}

func checkTTLs(ttls []TTLShare) error {
	sum := 0.0
	for _, t := range ttls {
		if t.TTL < Duration(time.Millisecond) || !(t.Share > 0) {
			return fmt.Errorf("ttls: %v with share %g: a time to live must be at least 1ms, and its share above 0",
				t.TTL, t.Share)
		}
		sum += t.Share
	}
	if sum > 1 && !isOne(sum) {
		return fmt.Errorf(
			"ttls: the shares add up to %.4g: they must be at most 1; the remaining writes have no time to live", sum)
	}
	return nil
}

// drawTTL returns the time to live of a write, 0 for none.
func drawTTL(ttls []TTLShare, r *rand.Rand) time.Duration {
	if len(ttls) == 0 {
		return 0
	}
	p := r.Float64()
	for _, t := range ttls {
		if p -= t.Share; p < 0 {
			return time.Duration(t.TTL)
		}
	}
	return 0
}

// filler is the text that values are cut from if they need not be unique: random, so that nothing compresses it, and
// shared by all connections.
type filler string

const fillerSlack = 64 << 10

func newFiller(most int, seed uint64) filler {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	r := rand.New(rand.NewPCG(seed, 1<<33))
	var b strings.Builder
	b.Grow(most + fillerSlack)
	for range most + fillerSlack {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	return filler(b.String())
}

func (f filler) cut(n int, r *rand.Rand) string {
	at := r.IntN(len(f) - n)
	return string(f[at : at+n])
}
