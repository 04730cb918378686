package resp

// splitWords splits an inline command like Redis: words are separated by white space; "..." supports the escapes \n \r
// \t \b \a \xHH, and '...' only \'; a closing quote must be followed by white space or the end. It appends the words to
// text, and their positions in text to words.
func splitWords(line, text []byte, words []span) ([]byte, []span, error) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return text, words, nil
		}
		from := len(text)
		var ok bool
		if text, i, ok = appendWord(line, i, text); !ok {
			return text, words, errQuotes
		}
		words = append(words, span{from, len(text)})
	}
}

// appendWord appends the word at line[i] to text and returns where it ended.
func appendWord(line []byte, i int, text []byte) ([]byte, int, bool) {
	for i < len(line) && !isSpace(line[i]) {
		c := line[i]
		i++
		if c != '"' && c != '\'' {
			text = append(text, c)
			continue
		}
		var ok bool
		if c == '"' {
			text, i, ok = doubleQuoted(line, i, text)
		} else {
			text, i, ok = singleQuoted(line, i, text)
		}
		return text, i, ok && (i == len(line) || isSpace(line[i]))
	}
	return text, i, true
}

func doubleQuoted(line []byte, i int, text []byte) ([]byte, int, bool) {
	for i < len(line) {
		c := line[i]
		switch {
		case c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			text = append(text, unhex(line[i+2])<<4|unhex(line[i+3]))
			i += 4
		case c == '\\' && i+1 < len(line):
			text = append(text, unescape(line[i+1]))
			i += 2
		case c == '"':
			return text, i + 1, true
		default:
			text = append(text, c)
			i++
		}
	}
	return text, i, false
}

func singleQuoted(line []byte, i int, text []byte) ([]byte, int, bool) {
	for i < len(line) {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			text = append(text, '\'')
			i += 2
		case c == '\'':
			return text, i + 1, true
		default:
			text = append(text, c)
			i++
		}
	}
	return text, i, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
