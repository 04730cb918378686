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

// Terminal colors.
const (
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[1;31m"
	green  = "\x1b[32m"
	normal = "\x1b[0m"
)

// page is the terminal that the tour prints to.
type page struct {
	out   io.Writer
	color bool
	// perLetter is how long the reader gets per letter.
	perLetter time.Duration
}

// print writes a line in a color, and gives the reader time.
func (p *page) print(ctx context.Context, color, line string) {
	if p.color && color != "" {
		fmt.Fprintln(p.out, color+line+normal)
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

// row prints a line unchanged.
func (p *page) row(ctx context.Context, format string, args ...any) {
	p.print(ctx, faint, strings.TrimRight(margin+"  "+fmt.Sprintf(format, args...), " "))
}

// verdict prints a statement that holds, or one that reports a failure.
func (p *page) verdict(ctx context.Context, holds bool, text string) {
	if holds {
		p.wrapped(ctx, green, margin+"ok  ", text)
	} else {
		p.wrapped(ctx, red, margin+"UNEXPECTED  ", text)
	}
}

// wrapped prints text in lines of the page's width; start begins the first line, and the others are indented by its
// width.
func (p *page) wrapped(ctx context.Context, color, start, text string) {
	indent := strings.Repeat(" ", len(start))
	line := start
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.print(ctx, color, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	p.print(ctx, color, line)
}

// pause waits until d has passed or ctx ends.
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

// took formats a duration for the tour.
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

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
