package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward is a port of this machine that leads to one of a pod, through the API server, with the rights of the user.
type forward struct {
	address string
	client  *http.Client
	stop    func()
	// ended is closed when the connection has ended; err is why.
	ended chan struct{}
	err   error
}

// forward forwards a port to the page of an operator.
func (k *connection) forward(ctx context.Context, to operatorPod) (*forward, error) {
	fail := func(err error) error {
		if strings.Contains(err.Error(), "is forbidden") { // the dialers keep the text only
			return fmt.Errorf(
				"forward a port to pod %s/%s: %w; you need a Role in namespace %s with verbs get and create on "+
					"resource pods/portforward",
				to.namespace, to.name, err, to.namespace)
		}
		return fmt.Errorf("forward a port to pod %s/%s: %w", to.namespace, to.name, err)
	}
	config := rest.CopyConfig(k.config)
	config.Timeout = 0 // the connection lasts as long as the page
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fail(err)
	}
	url := clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.name).SubResource(
		"portforward").URL()
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, fail(err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", to.port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fail(err)
	}
	f := &forward{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, ended: make(chan struct{}),
		stop: sync.OnceFunc(func() { close(stop) })}
	go func() {
		f.err = forwarder.ForwardPorts()
		close(f.ended)
	}()
	select {
	case <-ready:
	case <-f.ended:
		return nil, fail(f.err)
	case <-ctx.Done():
		f.stop()
		return nil, fail(ctx.Err())
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		f.stop()
		return nil, fail(err)
	}
	f.address = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
	return f, nil
}

func (f *forward) close() {
	f.stop()
	f.client.CloseIdleConnections()
}

// explain says why a request failed: if the connection to the pod has ended, for that reason.
func (f *forward) explain(err error) error {
	select {
	case <-f.ended:
		return errors.New(
			"the connection to it has ended: it stops, or serves no page at that port, as versions before this one do")
	default:
		return err
	}
}

// openBrowser opens an address in the user's browser. It does not wait for the browser to end.
func openBrowser(ctx context.Context, address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // frees the process
	return nil
}
