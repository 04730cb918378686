package bench

import (
	"testing"
)

func TestSkipRepliesTakesCompleteRepliesAndCountsWrongOnes(t *testing.T) {
	for _, c := range []struct {
		name                 string
		in                   string
		limit                int
		want                 byte
		replies, wrong, used int
	}{
		{"two values", "$2\r\nab\r\n$1\r\nc\r\n", 9, '$', 2, 0, 15},
		{"a value that has not arrived", "$2\r\nab\r\n$10\r\nab", 9, '$', 1, 0, 8},
		{"a header that has not arrived", "$2\r\nab\r\n$1", 9, '$', 1, 0, 8},
		{"a missing value", "$-1\r\n$0\r\n\r\n", 9, '$', 2, 1, 11},
		{"an error for a write", "+OK\r\n-BUSY full\r\n+OK\r\n", 9, '+', 3, 1, 22},
		{"no more than asked for", "+OK\r\n+OK\r\n+OK\r\n", 2, '+', 2, 0, 10},
		{"a value for a write", "$1\r\na\r\n", 9, '+', 1, 1, 7},
		{"a number", ":12\r\n", 9, ':', 1, 0, 5},
		{"a list of values", "*2\r\n$1\r\na\r\n$0\r\n\r\n*0\r\n", 9, '*', 2, 0, 21},
		{"a list with a missing value", "*2\r\n$-1\r\n$0\r\n\r\n", 9, '*', 1, 1, 15},
		{"a list of which a value has not arrived", "*2\r\n$1\r\na\r\n$5\r\nab", 9, '*', 0, 0, 0},
		{"an error for a list", "-CONFLICT\r\n", 9, '*', 1, 1, 11},
		{"nothing", "", 9, '+', 0, 0, 0},
	} {
		replies, wrong, used, err := skipReplies([]byte(c.in), c.limit, c.want)
		if err != nil || replies != c.replies || wrong != c.wrong || used != c.used {
			t.Errorf("%s: %d replies, %d wrong, %d bytes, error %v; want %d, %d, %d", c.name, replies, wrong, used, err,
				c.replies, c.wrong, c.used)
		}
	}
	for _, bad := range []string{"*1\r\n", "$x\r\n", "$\r\n", "\n"} {
		if _, _, _, err := skipReplies([]byte(bad), 1, '$'); err == nil {
			t.Errorf("%q is accepted as a reply", bad)
		}
	}
}
