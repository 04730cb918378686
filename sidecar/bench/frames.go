package bench

import (
	"bytes"
	"fmt"
	"strconv"
)

// frames are the requests of one kind, one for each key, built before the clock runs.
type frames struct {
	requests [][]byte
	// reply is the type byte of the only right answer: '$' for GET, '+' for SET.
	reply byte
}

// getFrames asks for keys of the prefix.
func getFrames(prefix string, keys int) frames {
	f := frames{reply: '$'}
	for i := range keys {
		f.requests = append(f.requests, request("GET", prefix+strconv.Itoa(i)))
	}
	return f
}

// setFrames writes values of valueBytes to keys of the prefix.
func setFrames(prefix string, keys, valueBytes int) frames {
	f := frames{reply: '+'}
	value := string(bytes.Repeat([]byte{'v'}, valueBytes))
	for i := range keys {
		f.requests = append(f.requests, request("SET", prefix+strconv.Itoa(i), value))
	}
	return f
}

func request(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// skipReplies steps over the whole replies at the start of b, n at most. It returns how many there were, how many of them
// were not of the wanted type (a missing value is not one either), and the bytes they took.
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
				return replies, wrong, used, fmt.Errorf("reply %q is no RESP", rest[:end])
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
			return replies, wrong, used, fmt.Errorf("reply %q is none that a GET or SET has", rest[:end])
		}
		replies++
		used += size
	}
	return replies, wrong, used, nil
}
