package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/topology"
)

// scenarioFlags are the flags that cost and plan share. A flag overrides the file.
type scenarioFlags struct {
	putFraction, missRatio, boundReads   float64
	valueBytes, putBytes, getBytes       float64
	missOperations, cacheShare, standard float64
	measured                             string
}

func (f *scenarioFlags) register(fs *pflag.FlagSet) {
	fs.Float64Var(&f.putFraction, "put-fraction", cost.DefaultPutFraction, "share of puts among the operations")
	fs.Float64Var(&f.missRatio, "miss-ratio", cost.DefaultMissRatio, "share of gets that the cache cannot answer")
	fs.Float64Var(&f.boundReads, "bound-reads", cost.DefaultBoundReads,
		"share of gets of sessions that are bound to the ring of their data center and bypass the cache")
	fs.Float64Var(&f.valueBytes, "value-bytes", cost.DefaultValueBytes,
		"size of values in bytes; the default of --put-bytes and --get-bytes")
	fs.Float64Var(&f.putBytes, "put-bytes", 0, "bytes sent between data centers per copy of a put")
	fs.Float64Var(&f.getBytes, "get-bytes", 0,
		"bytes sent between data centers per get that another data center answers")
	fs.Float64Var(&f.missOperations, "miss-operations", cost.DefaultMissOperations,
		"extra operations of a missed get: the failed cache lookup and the cache fill")
	fs.Float64Var(&f.cacheShare, "cache-share", cost.DefaultCacheShare, "share of servers that are caches")
	fs.Float64Var(&f.standard, "price-per-gb", 1, "price per GB between data centers that have no price in the input")
	fs.StringVar(&f.measured, "measured", "",
		`JSON file of measured figures: {"missRatio":0.1,"wanBytesPerGet":40,"wanBytesPerPut":900}`)
}

// apply overrides the file with the flags that were given.
func (f *scenarioFlags) apply(fs *pflag.FlagSet, file *cost.File) {
	for _, o := range []struct {
		flag  string
		value *float64
		field **float64
	}{
		{"put-fraction", &f.putFraction, &file.PutFraction}, {"miss-ratio", &f.missRatio, &file.MissRatio},
		{"bound-reads",
			&f.boundReads, &file.BoundReads},
		{"value-bytes", &f.valueBytes, &file.ValueBytes}, {"put-bytes", &f.putBytes, &file.PutBytes},
		{"get-bytes", &f.getBytes,
			&file.GetBytes},
		{"miss-operations", &f.missOperations, &file.MissOperations}, {"cache-share", &f.cacheShare,
			&file.CacheShare}, {"price-per-gb", &f.standard, &file.DefaultPricePerGB},
	} {
		if fs.Changed(o.flag) {
			*o.field = o.value
		}
	}
	if fs.Changed("miss-ratio") {
		for i := range file.DataCenters {
			file.DataCenters[i].MissRatio = nil
		}
	}
}

// scenario builds the scenario, including measured figures.
func (f *scenarioFlags) scenario(fs *pflag.FlagSet, file *cost.File) (*cost.Scenario, error) {
	f.apply(fs, file)
	s, err := file.Scenario()
	if err != nil || f.measured == "" {
		return s, err
	}
	m, err := cost.LoadMeasured(f.measured)
	if err != nil {
		return nil, err
	}
	return s, s.Use(m)
}

// inputFile loads the file named on the command line, or the default topology.
func inputFile(args []string) (*cost.File, error) {
	if len(args) == 0 {
		return cost.OfTopology(topology.Default()), nil
	}
	return cost.Load(args[0])
}

type costFlags struct {
	scenarioFlags
	putFractions, alphas []float64
	dataCenters, rings   int
	json, svg            string
	paper                bool
	inputs               string
}

// NewCostCommand returns `causalstore cost`.
func NewCostCommand() *cobra.Command {
	var f costFlags
	cmd := &cobra.Command{
		Use:   "cost [FILE]",
		Short: "Estimate what rings save compared with full replication, with the paper's cost models",
		Long: `Computes what a layout of rings saves compared with full replication: compute and
storage (CAPEX), and traffic between data centers (OPEX). FILE is a topology file, or a file that
adds traffic and prices; see docs/planning.md. The default is the default topology with the same
traffic everywhere. The models are those of section 6.4 of the Karma paper; --paper repeats the
paper's own analysis and compares its figures with those of the models.`,
		Example: `  causalstore cost
  causalstore cost input.yaml --put-fractions 0.01,0.05,0.5 --alphas 0.3,0.6 --svg ./plots
  causalstore cost --data-centers 5 --rings 2 --miss-ratio 0.2
  causalstore cost --paper`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.Float64SliceVar(&f.putFractions, "put-fractions", nil,
		"shares of puts for which to show the savings (default 0.05 to 0.5)")
	fs.Float64SliceVar(&f.alphas, "alphas", nil, "storage shares of the cost of a server (default 0.2, 0.5, 0.8)")
	fs.IntVar(&f.dataCenters, "data-centers", 0, "number of identical data centers, instead of FILE")
	fs.IntVar(&f.rings, "rings", 0, "number of rings of about equal size, with --data-centers")
	fs.StringVar(&f.json, "json", "", "also write the results to this file, as JSON")
	fs.StringVar(&f.svg, "svg", "", "directory to write charts of the savings to, as SVG")
	fs.BoolVar(&f.paper, "paper", false,
		"repeat the paper's analysis, and compare its figures with those of the models")
	fs.StringVar(&f.inputs, "inputs", "",
		"with --paper: directory to write the inputs of its Twitter analysis to, for causalstore plan")
	return cmd
}

// analysis is a report of either kind.
type analysis interface {
	Text(io.Writer)
	Charts() map[string][]byte
}

func (f *costFlags) run(cmd *cobra.Command, args []string) error {
	var a analysis
	var err error
	switch {
	case f.paper:
		a, err = f.repeatPaper(cmd, args)
	case f.inputs != "":
		err = errors.New("--inputs writes the inputs of the paper's analysis; add --paper")
	default:
		a, err = f.report(cmd, args)
	}
	if err != nil {
		return err
	}
	a.Text(cmd.OutOrStdout())
	return errors.Join(writeJSON(f.json, a), writeFiles(f.svg, a.Charts()))
}

func (f *costFlags) repeatPaper(cmd *cobra.Command, args []string) (analysis, error) {
	var other []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "paper", "inputs", "json", "svg", "put-fractions":
		default:
			other = append(other, "--"+flag.Name)
		}
	})
	if len(args) > 0 || len(other) > 0 {
		return nil, fmt.Errorf("--paper uses the paper's inputs; leave out %v", append(other, args...))
	}
	p, err := cost.RepeatPaper(f.putFractions)
	if err != nil || f.inputs == "" {
		return p, err
	}
	files := map[string][]byte{}
	for i, name := range []string{"twitter-first-reads.yaml", "twitter-users.yaml", "twitter-alike.yaml"} {
		if files[name], err = p.Cases[i].Input(); err != nil {
			return nil, err
		}
	}
	return p, writeFiles(f.inputs, files)
}

func (f *costFlags) report(cmd *cobra.Command, args []string) (analysis, error) {
	file, err := f.file(cmd, args)
	if err != nil {
		return nil, err
	}
	if f.putFractions != nil {
		file.PutFractions = f.putFractions
	} else if cmd.Flags().Changed("put-fraction") {
		file.PutFractions = []float64{f.putFraction}
	}
	if f.alphas != nil {
		file.Alphas = f.alphas
	}
	s, err := f.scenario(cmd.Flags(), file)
	if err != nil {
		return nil, err
	}
	if s.Today == nil {
		return nil, errors.New("the input has no rings; add rings, or let causalstore plan propose some")
	}
	return s.Compare(s.Today), nil
}

// file returns the input: a file, or numbers of data centers and rings.
func (f *costFlags) file(cmd *cobra.Command, args []string) (*cost.File, error) {
	fs := cmd.Flags()
	if !fs.Changed("data-centers") && !fs.Changed("rings") {
		return inputFile(args)
	}
	if len(args) > 0 {
		return nil, errors.New("FILE defines the data centers and rings; leave out --data-centers and --rings")
	}
	if f.rings < 1 || f.rings > f.dataCenters || f.dataCenters > topology.MaxDCs {
		return nil,
			fmt.Errorf("--rings %d --data-centers %d: give both, with 1 to %d data centers and at most as many rings",
				f.rings,
				f.dataCenters, topology.MaxDCs)
	}
	file := &cost.File{Rings: make([]topology.FileRing, f.rings)}
	for i := range f.dataCenters {
		name := fmt.Sprintf("dc-%d", i+1)
		file.DataCenters = append(file.DataCenters,
			cost.FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: name}})
		ring := &file.Rings[i%f.rings]
		ring.Name, ring.DataCenters = fmt.Sprintf("ring-%d", i%f.rings+1), append(ring.DataCenters, name)
	}
	return file, nil
}

func writeJSON(path string, v any) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// writeFiles writes files to a directory, which it creates; "" writes nothing.
func writeFiles(dir string, files map[string][]byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create a directory for files: %w", err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
