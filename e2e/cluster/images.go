//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/debian"
	"github.com/causalstore/causalstore/e2e/image"
	"github.com/causalstore/causalstore/version"
)

// Images that every cluster has. They come from no registry, hence localhost.
const (
	pauseImage   = "localhost/pause:1"
	corednsImage = "localhost/coredns:1"
)

const pathEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The user of images that need no root.
const (
	nonRootID = 65532
	nonRoot   = "65532:65532"
)

// addImageCommands adds the commands that write image archives.
func addImageCommands(add func(string, string, cobra.PositionalArgs,
	func(context.Context, []string) error) *cobra.Command) {
	add("image-causalstore ARCHIVE NAME [ARCHIVE NAME]...",
		"Build CausalStore from this checkout and write its image, once for each name", pairs,
		func(ctx context.Context, args []string) error { return writeCausalStoreImages(ctx, "", args) })
	add("image-broken MUTATIONS ARCHIVE NAME",
		"Build CausalStore so that it breaks rules of the protocol, names of mutations separated by commas, and "+
			"write its image",
		cobra.ExactArgs(3), func(ctx context.Context, args []string) error {
			return writeCausalStoreImages(ctx, args[0], args[1:])
		})
	add("image-redis ARCHIVE NAME", "Write an image with Debian's Redis", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return debian.Write(ctx, args[0], debian.Image{Name: args[1],
				Config:   v1.Config{Entrypoint: []string{"redis-server"}, Env: []string{pathEnv}, WorkingDir: "/data"},
				Packages: []string{"redis-server", "redis-tools"},
				Programs: []string{"/usr/bin/redis-server", "/usr/bin/redis-cli"}})
		})
	add("image-envoy ARCHIVE NAME", "Write an image with Envoy, for the edges of stores", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return writeEnvoyImage(ctx, args[0], args[1])
		})
	add("image-etcd ARCHIVE NAME",
		"Write an image with the etcd of the cluster's own programs, for the etcds of stores", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return writeEtcdImage(ctx, args[0], args[1]) })
	add("envoy", "Find Envoy, or download it (37 MB, with pip3), and print its path", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			program, err := binaries.Envoy(ctx)
			if err == nil {
				fmt.Println(program)
			}
			return err
		})
	add("image-app ARCHIVE NAME", "Write an image of an app with a shell and Debian's redis-cli", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return debian.Write(ctx, args[0], debian.Image{Name: args[1],
				Config:   v1.Config{Entrypoint: []string{"/bin/sh"}, Env: []string{pathEnv}},
				Packages: []string{"busybox-static", "redis-tools"},
				Programs: []string{"/bin/busybox", "/usr/bin/redis-cli"}, Links: appletLinks()})
		})
}

// pairs accepts one or more pairs of arguments.
func pairs(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return errors.New("give pairs of ARCHIVE and NAME")
	}
	return nil
}

// appletLinks are the commands that busybox provides in an image.
func appletLinks() map[string]string {
	links := map[string]string{}
	for _, name := range []string{"sh", "cat", "date", "echo", "grep", "head", "ls", "nc", "nslookup", "seq", "sleep",
		"tail", "timeout", "true", "wc", "wget"} {
		links["/bin/"+name] = "busybox"
	}
	return links
}

// writeEnvoyImage writes an image that runs Envoy as a user of its own. Envoy is built for older systems than Debian's,
// so that Debian's libraries do.
func writeEnvoyImage(ctx context.Context, archive, name string) error {
	program, err := binaries.Envoy(ctx)
	if err != nil {
		return err
	}
	return debian.Write(ctx, archive, debian.Image{Name: name, Packages: []string{"libc6"},
		Files:  map[string]string{"/usr/local/bin/envoy": program},
		Config: v1.Config{Entrypoint: []string{"envoy"}, User: nonRoot, Env: []string{pathEnv}}})
}

// writeEtcdImage writes an image that runs etcd as a user of its own. Its program may be hyperkube, which is etcd if
// called by that name, and may have been linked with the C library, hence Debian's.
func writeEtcdImage(ctx context.Context, archive, name string) error {
	programs, err := binaries.Find(ctx, "etcd")
	if err != nil {
		return err
	}
	program, err := programs.Path("etcd")
	if err != nil {
		return err
	}
	return debian.Write(ctx, archive, debian.Image{Name: name, Packages: []string{"libc6"},
		Files:  map[string]string{"/usr/local/bin/etcd": program},
		Config: v1.Config{Entrypoint: []string{"etcd"}, User: nonRoot, Env: []string{pathEnv}}})
}

// writeCausalStoreImages writes the image that the Dockerfile describes, for pairs of archive and name. With mutations,
// its program breaks rules, to see that checkers catch it.
func writeCausalStoreImages(ctx context.Context, mutations string, pairs []string) error {
	dir, err := os.MkdirTemp(filepath.Dir(pairs[0]), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "causalstore")
	env, flags := []string{pathEnv}, []string{}
	if mutations != "" {
		env, flags = append(env, "CAUSALSTORE_MUTATIONS="+mutations), append(flags, "-tags=mutations")
	}
	revision := revisionOf(ctx)
	flags = append(flags, "-ldflags=-s -w -X github.com/causalstore/causalstore/version.revision="+revision)
	if err := goBuild(ctx, program, ".", flags...); err != nil {
		return err
	}
	config := v1.Config{Entrypoint: []string{"/causalstore"}, Cmd: []string{"--help"}, User: nonRoot,
		WorkingDir: "/data", Env: env,
		Labels: map[string]string{"org.opencontainers.image.title": "CausalStore",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version.Number(), "org.opencontainers.image.revision": revision}}
	for pair := range slices.Chunk(pairs, 2) {
		err := image.Write(pair[0], pair[1], config, func(l *image.Layer) error {
			return errors.Join(l.Dir("data", 0o700, nonRootID), l.Dir("tmp", 0o1777, nonRootID),
				l.File("licenses/LICENSE", "LICENSE", 0o644),
				l.File("causalstore", program, 0o755))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// revisionOf returns the revision of this checkout, as the Makefile names it, or "unknown".
func revisionOf(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=40",
		"--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// goBuild builds a package of this checkout.
func goBuild(ctx context.Context, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", out, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// baseImages writes the archives of the images that every cluster has, unless they exist, and returns their paths.
func (b *bed) baseImages(ctx context.Context) ([]string, error) {
	pause, coredns := b.file("images", "pause.tar"), b.file("images", "coredns.tar")
	if err := os.MkdirAll(b.file("images"), 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(coredns); err == nil {
		return []string{pause, coredns}, nil
	}
	program := b.file("pause")
	if err := goBuild(ctx, program, "github.com/causalstore/causalstore/e2e/cluster/pause"); err != nil {
		return nil, err
	}
	server, err := binaries.Folder{Dir: b.Binaries}.Path("coredns")
	if err != nil {
		return nil, err
	}
	write := func(archive, name, program, to string) error {
		return image.Write(archive, name, v1.Config{Entrypoint: []string{to}, Env: []string{pathEnv}},
			func(l *image.Layer) error { return l.File(to, program, 0o755) })
	}
	return []string{pause, coredns}, errors.Join(write(pause, pauseImage, program, "/pause"),
		write(coredns, corednsImage, server, "/coredns"))
}

// loadImages imports archives on all nodes in parallel.
func (b *bed) loadImages(ctx context.Context, archives []string) error {
	results := make(chan error)
	for _, n := range b.Nodes {
		go func() { results <- b.loadNode(ctx, n, archives) }()
	}
	var errs []error
	for range b.Nodes {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

func (b *bed) loadNode(ctx context.Context, n node, archives []string) error {
	pid := b.runningPID(n.Name)
	if pid == 0 {
		return fmt.Errorf("%s is not running; start it with `cluster up`", n.Name)
	}
	ctr, err := binaries.Folder{Dir: b.Binaries}.Path("ctr")
	if err != nil {
		return err
	}
	socket := fmt.Sprintf("/proc/%d/root%s", pid, containerdSocket)
	err = await(ctx, startTimeout, func() error { return run(ctx, ctr, "--address", socket, "version") })
	if err != nil {
		return fmt.Errorf("containerd of %s: %w", n.Name, err)
	}
	for _, archive := range archives {
		if err := run(ctx, ctr, "--address", socket, "--namespace", "k8s.io", "images", "import", archive); err != nil {
			return fmt.Errorf("import %s on %s: %w", archive, n.Name, err)
		}
	}
	return nil
}

// startTimeout bounds every wait for something to start, on a busy machine too.
const startTimeout = 3 * time.Minute
