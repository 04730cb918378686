package bench

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Origin says where a result comes from.
type Origin struct {
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	Command string `json:"command"`
	Date    string `json:"date"`
}

func (s *Setup) origin() Origin {
	return Origin{Machine: machine(), Commit: commit(), Command: s.Command, Date: time.Now().Format("2 January 2006")}
}

func (o Origin) String() string {
	return strings.Join([]string{o.Machine, "commit " + o.Commit, o.Date}, "; ")
}

// machine describes the machine.
func machine() string {
	return fmt.Sprintf("%d CPUs (%s), %s/%s, %s", runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}

// commit is the revision that this program was built from; builds outside of a checkout do not know it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return revision + changed
}
