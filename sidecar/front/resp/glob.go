package resp

// matchGlob reports whether text matches a pattern: * ? [a-z] [^a-z], and \ to escape a character. CONFIG GET and
// COMMAND LIST ignore case. It runs in O(len(pattern) x len(text)).
func matchGlob(pattern, text string, ignoreCase bool) bool {
	fold := func(c byte) byte { return c }
	if ignoreCase {
		fold = lower
	}
	p, t := 0, 0
	star, retry := -1, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, t
			p++
			continue
		}
		if next, ok := matchOne(pattern, p, fold(text[t]), fold); ok {
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

// matchOne matches one character, which is folded, and returns the position after the element that matched it.
func matchOne(pattern string, p int, c byte, fold func(byte) byte) (next int, ok bool) {
	if p >= len(pattern) {
		return p, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, c, fold)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, fold(pattern[p]) == c
}

func matchClass(pattern string, p int, c byte, fold func(byte) byte) (next int, ok bool) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	found := false
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		if pattern[p] == '\\' && p+1 < len(pattern) {
			p++
		}
		low, high := fold(pattern[p]), fold(pattern[p])
		if p+2 < len(pattern) && pattern[p+1] == '-' {
			high = fold(pattern[p+2])
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
