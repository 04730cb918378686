package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a number of bytes. It is written as a number, optionally with a unit as in Kubernetes: 64Ki, 256Mi, 2Gi,
// 100M.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9},
	{"T", 1e12}, {"", 1}}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	text := strings.TrimSpace(strings.Trim(string(data), `"`))
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.size {
			break
		}
		*b = Bytes(n * u.size)
		return nil
	}
	return fmt.Errorf("%q is not a number of bytes; give one such as 1048576, 64Ki, 256Mi or 2Gi", text)
}

// Duration is written as "1m30s" or "250ms".
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf(`%s is not a duration; give one such as "5s" or "250ms"`, data)
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf(`%q is not a duration; give one such as "5s" or "250ms"`, text)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }
