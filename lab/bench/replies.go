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
		size, right, err := skipReply(b[used:], want)
		if err != nil || size == 0 {
			return replies, wrong, used, err
		}
		if !right {
			wrong++
		}
		replies++
		used += size
	}
	return replies, wrong, used, nil
}

// skipReply returns the bytes of the reply at the start of b, 0 if not all have arrived, and whether it is of the
// wanted type. A list is right if it has values only.
func skipReply(b []byte, want byte) (size int, right bool, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, false, nil
	}
	size, right = end+1, b[0] == want
	switch b[0] {
	case '$', '*':
		n, err := strconv.Atoi(string(b[1:max(1, end-1)]))
		if err != nil || b[0] == '*' && want != '*' {
			return 0, false, fmt.Errorf("reply %q is not one to the request", b[:end])
		}
		right = right && n >= 0
		if b[0] == '*' {
			return skipValues(b, size, n, right)
		}
		if n >= 0 {
			size += n + 2
		}
		if len(b) < size {
			return 0, false, nil
		}
	case '+', '-', ':', '_':
	default:
		return 0, false, fmt.Errorf("reply %q has a type that no reply to the request has", b[:end])
	}
	return size, right, nil
}

// skipValues is skipReply for a list, after its header.
func skipValues(b []byte, size, values int, right bool) (int, bool, error) {
	for range values {
		n, isValue, err := skipReply(b[size:], '$')
		if n == 0 || err != nil {
			return 0, false, err
		}
		size, right = size+n, right && isValue
	}
	return size, right, nil
}
