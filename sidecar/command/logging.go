package command

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// logFlags are the flags of every command that logs.
type logFlags struct {
	format string
	level  string
}

func (f *logFlags) register(fs *pflag.FlagSet, level string) {
	fs.StringVar(&f.format, "log-format", "text", "format of the log: text or json")
	fs.StringVar(&f.level, "log-level", level, "least level that is logged: debug, info, warn or error")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: give debug, info, warn or error", f.level)
	}
	if f.format != "text" && f.format != "json" {
		return nil, fmt.Errorf("--log-format %q: give text or json", f.format)
	}
	return newLogger(w, f.format, level), nil
}

// newLogger returns a logger whose format, text or json, was checked.
func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if strings.EqualFold(format, "json") {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
