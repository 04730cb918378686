package process

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a change is left to become whole: editors write files in several steps.
	settle = 100 * time.Millisecond
	// pollEvery is when the file is read even though nothing was seen to change: some file systems tell nobody.
	pollEvery = 10 * time.Second
)

// watch reloads when the files change, until stop is called.
func (r *reloader) watch(log *slog.Logger) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	events, end := notifications([]string{r.source.Path, r.current.Config.TopologyFile}, log)
	go func() {
		defer close(ended)
		defer end()
		poll := time.NewTicker(pollEvery)
		defer poll.Stop()
		due := time.NewTimer(0) // once at the start: the file may have changed since it was read
		for {
			select {
			case <-done:
				return
			case <-events:
				due.Reset(settle)
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

// notifications tells of changes around the files. It watches their folders, because a file that is replaced by a rename is
// another one, and because in a Kubernetes volume the files are links through "..data", which is what is replaced there.
func notifications(files []string, log *slog.Logger) (<-chan struct{}, func()) {
	out := make(chan struct{}, 1)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("changes of the configuration file will be seen late, because the file system cannot be watched", "every", pollEvery, "error", err)
		return out, func() {}
	}
	wanted := map[string]bool{}
	for _, f := range files {
		if f == "" {
			continue
		}
		wanted[filepath.Clean(f)] = true
		if err := w.Add(filepath.Dir(f)); err != nil {
			log.Warn("changes of the configuration file will be seen late, because its folder cannot be watched", "every", pollEvery, "folder", filepath.Dir(f), "error", err)
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
			case _, ok := <-w.Errors: // most likely an overflow of events: the poll makes up for it
				if !ok {
					return
				}
			}
		}
	}()
	return out, func() { _ = w.Close() } // there is nothing to do about it
}
