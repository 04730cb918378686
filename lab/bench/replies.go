package bench

import (
	"bytes"
	"fmt"
	"strconv"
)

// skipReplies steps over the complete replies at the start of b, n at most. It returns how many there were, how many of
// them were not of the wanted type (a missing value is not one either), and the bytes that they took.
func skipReplies(b []byte, n int, want byte) (replies, wrong, used int, err error) {
	for replies < n {
		rest := b[used:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return replies, wrong, used, nil
		}
		size := end + 1
		switch rest[0] {
		case '$':
			length, err := strconv.Atoi(string(rest[1:max(1, end-1)]))
			if err != nil {
				return replies, wrong, used, fmt.Errorf("reply %q is not RESP", rest[:end])
			}
			if length >= 0 {
				size += length + 2
			}
			if len(rest) < size {
				return replies, wrong, used, nil
			}
			if want != '$' || length < 0 {
				wrong++
			}
		case '+', '-', ':', '_':
			if rest[0] != want {
				wrong++
			}
		default:
			return replies, wrong, used, fmt.Errorf("reply %q has a type that no reply to GET or SET has", rest[:end])
		}
		replies++
		used += size
	}
	return replies, wrong, used, nil
}
