package process

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleTime is how long a reload waits after a change: editors write files in several steps.
	settleTime = 100 * time.Millisecond
	// pollInterval is how often the file is read although no change was reported: some file systems report none.
	pollInterval = 10 * time.Second
)

// files returns the files that are read again when they change. Those of TLS are read for every connection.
func (s *Settings) files(source Source) []string {
	all := []string{source.Path, s.Config.TopologyFile}
	if s.Config.Auth != nil {
		all = append(all, s.Config.Auth.UsersFile)
	}
	return all
}

// watch reloads the configuration when its files change, until stop is called.
func (r *reloader) watch(log *slog.Logger) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	events, end := watchFolders(r.current.files(r.source), log)
	go func() {
		defer close(ended)
		defer end()
		poll := time.NewTicker(pollInterval)
		defer poll.Stop()
		due := time.NewTimer(0) // fires once at the start: the file may have changed since it was read
		for {
			select {
			case <-done:
				return
			case <-events:
				due.Reset(settleTime)
			case <-due.C:
				r.reload(log)
			case <-poll.C:
				r.reload(log)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// watchFolders reports changes in the folders of the files. It does not watch the files themselves: a watch ends when a
// rename replaces its file, and in a Kubernetes volume the files are links through "..data", where only that link is
// replaced.
func watchFolders(files []string, log *slog.Logger) (<-chan struct{}, func()) {
	out := make(chan struct{}, 1)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("cannot watch the file system; the configuration file is polled instead", "interval", pollInterval,
			"error", err)
		return out, func() {}
	}
	wanted := map[string]bool{}
	for _, f := range files {
		if f == "" {
			continue
		}
		wanted[filepath.Clean(f)] = true
		if err := w.Add(filepath.Dir(f)); err != nil {
			log.Warn("cannot watch the folder of the configuration file; the file is polled instead", "interval",
				pollInterval, "folder", filepath.Dir(f), "error", err)
		}
	}
	go func() {
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				if !wanted[filepath.Clean(e.Name)] && !strings.HasPrefix(filepath.Base(e.Name), "..") {
					continue
				}
				select {
				case out <- struct{}{}:
				default:
				}
			case _, ok := <-w.Errors: // most likely an overflow of events, which the poll makes up for
				if !ok {
					return
				}
			}
		}
	}()
	return out, func() { _ = w.Close() } // the watch ends either way
}
