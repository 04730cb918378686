package kubectl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bundleFlags are the flags of `support-bundle`.
type bundleFlags struct {
	output, maxSize string
	logLines        int64
}

func (c *cluster) supportBundleCommand() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "support-bundle [STORE]",
		Short: "Collect what is needed to find out what is wrong with a store, in a tar.gz",
		Long: `Writes a tar.gz with manifests, statuses, events, logs, metrics and readiness
reports of a store and of the operator, and the output of status and doctor. It reads no Secret. Of
the pods of apps it takes their sidecars only; values of environment variables are left out, and so
are annotations that repeat a manifest.

What cannot be read is listed in errors.txt of the archive. Before compression the archive has at
most --max-size; files that do not fit are left out and listed too. Read it before you give it away:
logs and names of keys may say more than you want.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeStore,
		RunE: func(cmd *cobra.Command, args []string) error { return c.supportBundle(cmd, firstOrEmpty(args), f) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.output, "output", "o", "",
		"file to write; default: causalstore-STORE-TIME.tar.gz in the current folder")
	fs.StringVar(&f.maxSize, "max-size", "64Mi", "greatest size of the archive before compression")
	fs.Int64Var(&f.logLines, "log-lines", 2000, "lines of each container's log, from its end")
	return cmd
}

func (c *cluster) supportBundle(cmd *cobra.Command, name string, f bundleFlags) error {
	limit, err := resource.ParseQuantity(f.maxSize)
	if err != nil || limit.Value() < 1<<20 {
		return fmt.Errorf("--max-size %s: use a size of at least 1Mi, such as 64Mi", f.maxSize)
	}
	if f.logLines < 1 {
		return fmt.Errorf("--log-lines %d: use at least 1", f.logLines)
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	s, err := k.findStore(cmd.Context(), name)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	if f.output == "" {
		f.output = fmt.Sprintf("causalstore-%s-%s.tar.gz", s.Name, now.Format("20060102-150405"))
	}
	// Others on the machine must not read it.
	file, err := os.OpenFile(f.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	b := newBundle(file, limit.Value(), now)
	k.collect(cmd.Context(), b, s, f.logLines)
	if err := errors.Join(b.close(), file.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files; %d could not be collected%s\n", f.output, b.files,
		len(b.problems), seeErrors(b))
	return err
}

func seeErrors(b *bundle) string {
	if len(b.problems) == 0 {
		return ""
	}
	return ", see errors.txt in it"
}

// maxBundleFile bounds one file of a bundle, in bytes.
const maxBundleFile = 4 << 20

// errorsRoom is the part of a bundle's size that is kept for errors.txt.
const errorsRoom = 256 << 10

// bundle writes files to a tar.gz of bounded size.
type bundle struct {
	gzip *gzip.Writer
	tar  *tar.Writer
	room int64 // bytes that files may still have
	now  time.Time
	// files counts what was written; problems are what was not.
	files    int
	problems []string
	err      error
}

func newBundle(w io.Writer, limit int64, now time.Time) *bundle {
	b := &bundle{gzip: gzip.NewWriter(w), room: limit - errorsRoom, now: now}
	b.tar = tar.NewWriter(b.gzip)
	return b
}

// fail records that something could not be collected.
func (b *bundle) fail(name string, err error) {
	b.problems = append(b.problems, fmt.Sprintf("%s: %v", name, err))
}

// add writes a file, of which the end is kept if it is too long: logs are read from their end.
func (b *bundle) add(name string, content []byte) {
	if cut := len(content) - maxBundleFile; cut > 0 {
		b.fail(name, fmt.Errorf("the first %d bytes are left out", cut))
		content = content[cut:]
	}
	const header = 1024 // a header, and what pads the content
	if int64(len(content)+header) > b.room {
		b.fail(name, fmt.Errorf("%d bytes do not fit; use a greater --max-size", len(content)))
		return
	}
	b.room -= int64(len(content) + header)
	b.write(name, content)
}

func (b *bundle) write(name string, content []byte) {
	if b.err != nil {
		return
	}
	b.err = b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: b.now})
	if b.err == nil {
		_, b.err = io.Copy(b.tar, bytes.NewReader(content))
	}
	b.files++
}

// close writes the list of problems and ends the archive.
func (b *bundle) close() error {
	if len(b.problems) > 0 {
		text := strings.Join(b.problems, "\n") + "\n"
		if len(text) > errorsRoom-2048 {
			text = strings.ToValidUTF8(text[:errorsRoom-2048], "") + "\n...\n"
		}
		b.write("errors.txt", []byte(text))
	}
	return errors.Join(b.err, b.tar.Close(), b.gzip.Close())
}
