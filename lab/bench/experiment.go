package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Experiment is a benchmark: a subcommand of `causalstore bench`.
type Experiment struct {
	Name, Short, Long, Example string
	// Args names the arguments for the usage; empty: there are none.
	Args string
	// quick says what --quick measures, and quickly holds the values of flags that it sets if they are not given.
	quick   string
	quickly map[string]string
	// setup is part of the options, which declare declares as flags and measure measures with.
	setup   *Setup
	declare func(*flags)
	measure func(context.Context) (Result, error)

	flags  flags
	json   string
	report string
}

// Setup is what all experiments are given.
type Setup struct {
	// Binary is the causalstore program, which deployments are started from.
	Binary string
	// Dir is where temporary data is kept: it decides which disk is measured.
	Dir string
	// Args are the arguments, and Command is the command line, for the report.
	Args    []string
	Command string
	// Progress receives a line per step; nil receives none.
	Progress io.Writer

	begun time.Time
}

// Result is what an experiment has measured. It is also printed as JSON. One that has a method Verdict may fail the
// command.
type Result interface{ Report() *Report }

// Experiments returns all experiments with the options of a full run, in the order in which help lists them.
func Experiments() []*Experiment {
	return []*Experiment{FullOverhead().experiment(), FullWorkloads().experiment(), FullStockClient().experiment(),
		FullPaper().experiment(), FullMemory().experiment(), FullLimits().experiment(), FullIdle().experiment(),
		FullNearCopies().experiment(),
		FullFaults().experiment(), FullRegions().experiment()}
}

// measuring adapts the Measure of an experiment.
func measuring[R Result](measure func(context.Context) (R, error)) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) { return measure(ctx) }
}

// Declare declares the flags of the experiment.
func (e *Experiment) Declare(fs *pflag.FlagSet) {
	e.flags = flags{FlagSet: fs}
	fs.Bool("quick", false, e.quick)
	fs.StringVar(&e.json, "json", "", "also write the results to this file, as JSON")
	fs.StringVar(&e.report, "report", "", "also write a page with the tables and charts to this directory")
	fs.StringVar(&e.setup.Dir, "dir", os.TempDir(), "directory for temporary data; it decides which disk is measured")
	e.declare(&e.flags)
}

// Run measures with the values that the flags have, and prints the result. Path is the path of the command.
func (e *Experiment) Run(ctx context.Context, path string, args []string, out, progress io.Writer) error {
	if err := e.prepare(args); err != nil {
		return err
	}
	e.setup.Command = strings.Join(append([]string{path}, args...), " ") + e.flags.line()
	e.setup.Progress, e.setup.begun = progress, time.Now()
	if e.setup.Binary == "" {
		path, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the path of this program: %w", err)
		}
		e.setup.Binary = path
	}
	res, err := e.measure(ctx)
	if err != nil {
		return err
	}
	if err = e.print(res, out); err == nil {
		if judged, ok := res.(interface{ Verdict() error }); ok {
			err = judged.Verdict()
		}
	}
	return err
}

// prepare sets what --quick sets, and checks the values of the flags.
func (e *Experiment) prepare(args []string) error {
	if quick, err := e.flags.GetBool("quick"); err != nil || quick {
		for name, value := range e.quickly {
			err = errors.Join(err, e.flags.unlessGiven(name, value))
		}
		if err != nil {
			return err
		}
	}
	e.setup.Args = args
	return e.flags.check()
}

// print prints a result as text, and writes it to where the flags say.
func (e *Experiment) print(res Result, out io.Writer) error {
	report := res.Report()
	report.Text(out)
	var errs []error
	if e.json != "" {
		b, err := json.MarshalIndent(res, "", "  ")
		if err == nil {
			err = os.WriteFile(e.json, append(b, '\n'), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write the results: %w", err))
		}
	}
	if e.report != "" {
		errs = append(errs, report.Write(e.report))
	}
	return errors.Join(errs...)
}

// progress reports a step, with the time since the start.
func (s *Setup) progress(format string, args ...any) {
	if s.Progress == nil {
		return
	}
	at := time.Duration(0)
	if !s.begun.IsZero() {
		at = time.Since(s.begun)
	}
	fmt.Fprintf(s.Progress, "%2d:%02d %s\n", int(at.Minutes()), int(at.Seconds())%60, fmt.Sprintf(format, args...))
}
