package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	width  = 80
	margin = "   "
)

// The colours of a terminal.
const (
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[1;31m"
	green  = "\x1b[32m"
	normal = "\x1b[0m"
)

// page is the terminal that the tour is told on.
type page struct {
	out    io.Writer
	colour bool
	// perLetter is how long a reader is given for what was printed.
	perLetter time.Duration
}

// print writes a line, in a colour, and gives its reader time.
func (p *page) print(ctx context.Context, colour, line string) {
	if p.colour && colour != "" {
		fmt.Fprintln(p.out, colour+line+normal)
	} else {
		fmt.Fprintln(p.out, line)
	}
	pause(ctx, time.Duration(utf8.RuneCountInString(line))*p.perLetter)
}

// title starts a chapter.
func (p *page) title(ctx context.Context, number int, text string) {
	fmt.Fprintln(p.out)
	p.print(ctx, bold, fmt.Sprintf("%d  %s", number, text))
}

// say prints prose.
func (p *page) say(ctx context.Context, format string, args ...any) {
	p.wrapped(ctx, "", margin, fmt.Sprintf(format, args...))
}

// row prints a line as it is.
func (p *page) row(ctx context.Context, format string, args ...any) {
	p.print(ctx, faint, strings.TrimRight(margin+"  "+fmt.Sprintf(format, args...), " "))
}

// verdict prints what was found to hold, or not to.
func (p *page) verdict(ctx context.Context, holds bool, text string) {
	if holds {
		p.wrapped(ctx, green, margin+"ok  ", text)
	} else {
		p.wrapped(ctx, red, margin+"UNEXPECTED  ", text)
	}
}

// wrapped prints text in lines of the page's width; start stands before the first line, its width before the others.
func (p *page) wrapped(ctx context.Context, colour, start, text string) {
	indent := strings.Repeat(" ", len(start))
	line := start
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.print(ctx, colour, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	p.print(ctx, colour, line)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// took writes a duration as the tour shows it.
func took(d time.Duration) string {
	switch ms := float64(d) / 1e6; {
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1e3)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1 || ms == 0:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f ms", ms)
	}
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
