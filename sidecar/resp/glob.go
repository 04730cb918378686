package resp

// matchGlob reports whether text matches a pattern of CONFIG GET or COMMAND LIST: * ? [a-z] [^a-z], and \ to escape a
// character. It ignores case. It runs in O(len(pattern) x len(text)).
func matchGlob(pattern, text string) bool {
	p, t := 0, 0
	star, retry := -1, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, t
			p++
			continue
		}
		if next, ok := matchOne(pattern, p, text[t]); ok {
			p = next
			t++
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p, t = star+1, retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one character and returns the position after the element that matched it.
func matchOne(pattern string, p int, c byte) (next int, ok bool) {
	if p >= len(pattern) {
		return p, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, lower(c))
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, lower(pattern[p]) == lower(c)
}

func matchClass(pattern string, p int, c byte) (next int, ok bool) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	found := false
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		if pattern[p] == '\\' && p+1 < len(pattern) {
			p++
		}
		low, high := lower(pattern[p]), lower(pattern[p])
		if p+2 < len(pattern) && pattern[p+1] == '-' {
			high = lower(pattern[p+2])
			p += 2
		}
		if low > high {
			low, high = high, low
		}
		found = found || c >= low && c <= high
	}
	if p < len(pattern) {
		p++
	}
	return p, found != negated
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// equalFold reports whether b is the given lower-case word, ignoring the case of b.
func equalFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if lower(c) != word[i] {
			return false
		}
	}
	return true
}
