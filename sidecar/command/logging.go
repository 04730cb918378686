package command

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// LogFlags are the flags of every command that logs.
type LogFlags struct {
	format string
	level  string
}

// Register adds the flags to fs, with level as the default level.
func (f *LogFlags) Register(fs *pflag.FlagSet, level string) {
	fs.StringVar(&f.format, "log-format", "text", "log format: text or json")
	fs.StringVar(&f.level, "log-level", level, "lowest level to log: debug, info, warn or error")
}

// Logger validates the flags and returns the logger that they describe.
func (f *LogFlags) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("invalid --log-level %q: use debug, info, warn or error", f.level)
	}
	if f.format != "text" && f.format != "json" {
		return nil, fmt.Errorf("invalid --log-format %q: use text or json", f.format)
	}
	return NewLogger(w, f.format, level), nil
}

// NewLogger returns a logger. format is text or json; it must be valid.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if strings.EqualFold(format, "json") {
		o.ReplaceAttr = nameValues
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// nameValues writes values that have a name, such as nodes and kinds of messages, by it, as the text format does. JSON
// would show their numbers.
func nameValues(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny {
		if _, isError := a.Value.Any().(error); isError {
			return a
		}
		if named, ok := a.Value.Any().(fmt.Stringer); ok {
			return slog.String(a.Key, fmt.Sprint(named)) // a nil pointer does no harm
		}
	}
	return a
}
