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

	"github.com/causalstore/causalstore/sidecar/cost"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// scenarioFlags are the inputs that cost and plan share. A flag that is given wins over the file.
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
		"share of gets of sessions that are bound to the ring of their data centre and use no cache")
	fs.Float64Var(&f.valueBytes, "value-bytes", cost.DefaultValueBytes,
		"size of values; what --put-bytes and --get-bytes are if not given")
	fs.Float64Var(&f.putBytes, "put-bytes", 0, "bytes between data centres for each copy of a put")
	fs.Float64Var(&f.getBytes, "get-bytes", 0, "bytes between data centres for each get that another one answers")
	fs.Float64Var(&f.missOperations, "miss-operations", cost.DefaultMissOperations,
		"operations of a missed get beside its answer: looked up in vain, and filled in")
	fs.Float64Var(&f.cacheShare, "cache-share", cost.DefaultCacheShare, "share of servers that are caches")
	fs.Float64Var(&f.standard, "price-per-gb", 1, "price of a GB between data centres that the input gives no price for")
	fs.StringVar(&f.measured, "measured", "",
		`JSON file of measured figures: {"missRatio":0.1,"wanBytesPerGet":40,"wanBytesPerPut":900}`)
}

// apply puts what was given on the command line into the file.
func (f *scenarioFlags) apply(fs *pflag.FlagSet, file *cost.File) {
	for _, o := range []struct {
		flag  string
		value *float64
		field **float64
	}{
		{"put-fraction", &f.putFraction, &file.PutFraction}, {"miss-ratio", &f.missRatio, &file.MissRatio}, {"bound-reads",
			&f.boundReads, &file.BoundReads},
		{"value-bytes", &f.valueBytes, &file.ValueBytes}, {"put-bytes", &f.putBytes, &file.PutBytes}, {"get-bytes", &f.getBytes,
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

// scenario builds the scenario, with what was measured in it.
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

// inputFile is the file named on the command line, or the default topology.
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
		Short: "Say what rings save against a copy in each data centre, by the paper's cost models",
		Long: `Computes what a layout of rings saves against full replication: of compute and storage (CAPEX), and of the traffic
between data centres (OPEX). FILE is a topology file, or one that also has traffic and prices; see docs/planning.md. Without
one it is the default topology, with the same traffic everywhere. The models are those of Karma's section 6.4;
--paper repeats the paper's own analysis and puts its figures beside the models'.`,
		Example: `  causalstore cost
  causalstore cost input.yaml --put-fractions 0.01,0.05,0.5 --alphas 0.3,0.6 --svg ./plots
  causalstore cost --data-centers 5 --rings 2 --miss-ratio 0.2
  causalstore cost --paper`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.Float64SliceVar(&f.putFractions, "put-fractions", nil, "shares of puts to show the savings for; default: 0.05 to 0.5")
	fs.Float64SliceVar(&f.alphas, "alphas", nil, "storage's shares of what a server costs; default: 0.2, 0.5, 0.8")
	fs.IntVar(&f.dataCenters, "data-centers", 0, "number of data centres, instead of FILE; all alike")
	fs.IntVar(&f.rings, "rings", 0, "number of rings, with --data-centers; as equal in size as can be")
	fs.StringVar(&f.json, "json", "", "file to write the figures to as well, as JSON")
	fs.StringVar(&f.svg, "svg", "", "folder to draw the savings into, as SVG")
	fs.BoolVar(&f.paper, "paper", false, "repeat the paper's analysis, and put its figures beside the models'")
	fs.StringVar(&f.inputs, "inputs", "", "with --paper: folder to write the inputs of its Twitter analysis to, for causalstore plan")
	return cmd
}

// analysis is what both kinds of report can do.
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
		err = errors.New("--inputs writes the inputs of the paper's analysis; give --paper, too")
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
		return nil, fmt.Errorf("--paper has the paper's inputs; leave out %v", append(other, args...))
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
		return nil, errors.New("the input has no rings to compute the cost of; add rings, or ask causalstore plan for some")
	}
	return s.Compare(s.Today), nil
}

// file is the input: a file, or numbers of data centres and rings.
func (f *costFlags) file(cmd *cobra.Command, args []string) (*cost.File, error) {
	fs := cmd.Flags()
	if !fs.Changed("data-centers") && !fs.Changed("rings") {
		return inputFile(args)
	}
	if len(args) > 0 {
		return nil, errors.New("FILE says what data centres and rings there are; leave out --data-centers and --rings")
	}
	if f.rings < 1 || f.rings > f.dataCenters || f.dataCenters > topology.MaxDCs {
		return nil, fmt.Errorf("--rings %d --data-centers %d: give both, 1 to %d data centres and no more rings than that", f.rings,
			f.dataCenters, topology.MaxDCs)
	}
	file := &cost.File{Rings: make([]topology.FileRing, f.rings)}
	for i := range f.dataCenters {
		name := fmt.Sprintf("dc-%d", i+1)
		file.DataCenters = append(file.DataCenters, cost.FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: name}})
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
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// writeFiles writes files into a folder, which it makes; "" writes nothing.
func writeFiles(dir string, files map[string][]byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a folder for files: %w", err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
