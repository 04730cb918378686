//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/cluster/chaosprobe"
	"github.com/causalstore/causalstore/e2e/debian"
	"github.com/causalstore/causalstore/e2e/image"
)

// chaosNamespace is where Chaos Mesh is installed.
const chaosNamespace = "chaos-mesh"

// chaosRegistry and the repositories of the chart are the names of the images, which come from no registry.
const chaosRegistry = "localhost"

// triplets name the directories of Debian's libraries.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// addChaosCommands adds the commands for Chaos Mesh.
func addChaosCommands(dir *string, add func(string, string, cobra.PositionalArgs,
	func(context.Context, []string) error) *cobra.Command) {
	add("build-chaos-mesh", "Build Chaos Mesh from its Go module, unless it is in the cache", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			built, err := binaries.BuildChaosMesh(ctx, os.Stdout)
			if err == nil {
				fmt.Printf("Chaos Mesh %s is in %s, its chart in %s\n", built.Version, filepath.Dir(built.Controller),
					built.Chart)
			}
			return err
		})
	add("chaos-mesh", "Install Chaos Mesh in the cluster, and print what it can do there", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			b, err := openBed(*dir)
			if err != nil {
				return err
			}
			return b.installChaosMesh(ctx)
		})
	add("chaos-probe", "Print what Chaos Mesh can do on the nodes of the cluster: of KUBECONFIG, if it is set",
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			kubeconfig := os.Getenv("KUBECONFIG")
			if kubeconfig == "" {
				b, err := openBed(*dir)
				if err != nil {
					return err
				}
				kubeconfig = b.kubeconfig()
			}
			return printChaosFeatures(ctx, kubeconfig)
		})
}

// installChaosMesh installs or upgrades Chaos Mesh from images that it makes, and waits until it runs on all nodes.
func (b *bed) installChaosMesh(ctx context.Context) error {
	mesh, err := binaries.BuildChaosMesh(ctx, os.Stdout)
	if err != nil {
		return err
	}
	archives, err := b.chaosImages(ctx, mesh)
	if err != nil {
		return err
	}
	if err := b.loadImages(ctx, archives); err != nil {
		return err
	}
	if err := b.noteKernelModules(); err != nil {
		return err
	}
	if err := b.applyChaosCRDs(ctx, mesh); err != nil {
		return err
	}
	helm, err := binaries.Helm(ctx)
	if err != nil {
		return err
	}
	args := []string{"upgrade", "--install", "chaos-mesh", mesh.Chart, "--kubeconfig", b.kubeconfig(), "--namespace",
		chaosNamespace, "--create-namespace",
		"--skip-crds", "--wait", "--timeout", (2 * startTimeout).String()}
	for _, key := range slices.Sorted(maps.Keys(chaosValues(mesh))) {
		args = append(args, "--set", key+"="+chaosValues(mesh)[key])
	}
	if err := run(ctx, helm, args...); err != nil {
		return fmt.Errorf("install Chaos Mesh: %w", err)
	}
	fmt.Printf("Chaos Mesh %s runs in namespace %s\n", mesh.Tag(), chaosNamespace)
	return printChaosFeatures(ctx, b.kubeconfig())
}

// kernelModules is a directory of the host that the daemons mount. The container runtime creates it where the kernel
// has no modules.
const kernelModules = "/lib/modules"

// noteKernelModules makes down remove the directory if it does not exist yet.
func (b *bed) noteKernelModules() error {
	if _, err := os.Stat(kernelModules); !os.IsNotExist(err) {
		return err
	}
	b.Modules = true
	return b.save()
}

// removeKernelModules removes the directory if it was created for the daemons, and has stayed empty.
func (b *bed) removeKernelModules() {
	if b.Modules {
		_ = os.Remove(kernelModules)
	}
}

// applyChaosCRDs creates or updates the CRDs. Helm would only create them.
func (b *bed) applyChaosCRDs(ctx context.Context, mesh binaries.ChaosMesh) error {
	files, err := filepath.Glob(filepath.Join(mesh.Chart, "crds", "*.yaml"))
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s\n---\n", text)
	}
	_, err = kubectlOutput(ctx, b.kubeconfig(), all.String(), "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// chaosValues returns the values of the chart. The dashboard is left out; requests of users are authorized with their
// own rights to the namespaces that an experiment names (securityMode), and the daemons accept only the controller's
// certificate (the chart's default).
func chaosValues(mesh binaries.ChaosMesh) map[string]string {
	return map[string]string{
		"images.registry": chaosRegistry, "images.tag": mesh.Tag(),
		"dashboard.create": "false", "dashboard.securityMode": "true", "dnsServer.create": "false",
		"enableProfiling":                "false",
		"controllerManager.replicaCount": "1", "controllerManager.podChaos.podFailure.pauseImage": pauseImage,
		"chaosDaemon.runtime": "containerd", "chaosDaemon.socketPath": containerdSocket,
	}
}

// chaosImages writes the archives of the images of Chaos Mesh, unless they exist, and returns their paths.
func (b *bed) chaosImages(ctx context.Context, mesh binaries.ChaosMesh) ([]string, error) {
	controller, daemon := b.file("images", "chaos-mesh-"+mesh.Tag()+".tar"),
		b.file("images", "chaos-daemon-"+mesh.Tag()+".tar")
	if _, err := os.Stat(daemon); err == nil {
		return []string{controller, daemon}, nil
	}
	const bin = "/usr/local/bin/"
	config := v1.Config{Entrypoint: []string{bin + "chaos-controller-manager"}, User: nonRoot, Env: []string{pathEnv}}
	err := image.Write(controller, chaosRegistry+"/chaos-mesh/chaos-mesh:"+mesh.Tag(), config,
		func(l *image.Layer) error {
			return errors.Join(l.Dir("tmp", 0o1777, 0), l.File(bin+"chaos-controller-manager", mesh.Controller, 0o755))
		})
	if err != nil {
		return nil, err
	}
	return []string{controller, daemon}, b.writeChaosDaemonImage(ctx, daemon, mesh)
}

// writeChaosDaemonImage writes an image with the daemon and the programs that it calls. Missing are toda (IOChaos),
// tproxy (HTTPChaos), memStress (memory of StressChaos) and Byteman (JVMChaos), which are neither in Debian nor in the
// module.
func (b *bed) writeChaosDaemonImage(ctx context.Context, archive string, mesh binaries.ChaosMesh) error {
	triplet, ok := triplets[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("the image of Chaos Mesh can be made on amd64 and arm64 only, not on %s", runtime.GOARCH)
	}
	const source = "github.com/causalstore/causalstore/e2e/cluster/"
	nsexec, pause := b.file("nsexec"), b.file("waitcont")
	if err := errors.Join(goBuild(ctx, nsexec, source+"nsexec"), goBuild(ctx, pause, source+"waitcont")); err != nil {
		return err
	}
	const bin = "/usr/local/bin/"
	of := debian.Image{Name: chaosRegistry + "/chaos-mesh/chaos-daemon:" + mesh.Tag(),
		Config: v1.Config{Entrypoint: []string{bin + "chaos-daemon"},
			Env: []string{pathEnv, "XTABLES_LOCKFILE=/tmp/xtables.lock"}},
		Packages: []string{"dash", "coreutils", "grep", "sed", "ipset", "iptables", "iproute2", "util-linux",
			"stress-ng"},
		// Not busybox: its shell would call its own ip and tc.
		Programs: []string{"/bin/dash", "/bin/cat", "/bin/cp", "/bin/ls", "/bin/mkdir", "/bin/rm", "/bin/sleep",
			"/bin/uname", "/usr/bin/tail",
			"/bin/grep", "/bin/sed", "/usr/sbin/ipset", "/usr/sbin/xtables-legacy-multi", "/bin/ip", "/sbin/tc",
			"/usr/bin/nsenter", "/usr/bin/unshare", "/usr/bin/choom", "/usr/bin/stress-ng"},
		Files: map[string]string{bin + "chaos-daemon": mesh.Daemon, bin + "cdh": mesh.Helper, bin + "nsexec": nsexec,
			bin + "pause": pause},
		Links: map[string]string{"/bin/sh": "dash"},
	}
	// iptables loads what its rules name.
	for _, match := range []string{"standard", "set", "tcp", "udp", "multiport"} {
		of.Programs = append(of.Programs, "/usr/lib/"+triplet+"/xtables/libxt_"+match+".so")
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore"} {
		of.Links["/usr/sbin/"+name] = "xtables-legacy-multi"
	}
	return debian.Write(ctx, archive, of)
}

// printChaosFeatures tries in the daemon of each node what the node's kernel can do.
func printChaosFeatures(ctx context.Context, kubeconfig string) error {
	pods, err := kubectlOutput(ctx, kubeconfig, "", "get", "pods", "--namespace", chaosNamespace, "-l",
		"app.kubernetes.io/component=chaos-daemon",
		"--field-selector=status.phase=Running", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name}{"\n"}{end}`)
	if err != nil {
		return err
	}
	byNode := map[string][]chaosprobe.Feature{}
	for line := range strings.Lines(pods) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		out, err := kubectlOutput(ctx, kubeconfig, chaosprobe.Script, "exec", "-i", "--namespace", chaosNamespace,
			fields[1], "--", "sh")
		if err != nil {
			return fmt.Errorf("probe %s: %w", fields[0], err)
		}
		if byNode[fields[0]], err = chaosprobe.Parse(out); err != nil {
			return fmt.Errorf("probe %s: %w", fields[0], err)
		}
	}
	if len(byNode) == 0 {
		return fmt.Errorf(
			"no chaos-daemon runs in namespace %s: install Chaos Mesh, on the test bed with `cluster chaos-mesh`",
			chaosNamespace)
	}
	nodes := slices.Sorted(maps.Keys(byNode))
	fmt.Printf("what it can do on %s:\n%s", strings.Join(nodes, ", "), chaosprobe.Format(byNode, nodes))
	return nil
}

// kubectlOutput runs kubectl with standard input and returns its standard output.
func kubectlOutput(ctx context.Context, kubeconfig, input string, args ...string) (string, error) {
	folder, err := binaries.Find(ctx, "kubectl")
	if err != nil {
		return "", err
	}
	cmd, err := folder.Command("kubectl", args...)
	if err != nil {
		return "", err
	}
	cmd.Env, cmd.Stdin = append(os.Environ(), "KUBECONFIG="+kubeconfig), strings.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}
