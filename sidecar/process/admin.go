package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// adminServer takes decisions of people about the group of a coordinator or a shard, at a socket in its data folder:
// only the user that the process runs as, and root, can open it. Nothing of this is at listen.http, which has no
// authentication.
type adminServer struct {
	c           groupMember
	coordinator *coordinatorPart // nil for a shard
	shard       *memberPart      // nil for a coordinator
	topo        func() *topology.Topology
	log         *slog.Logger
	server      *http.Server
}

// serve serves until it is closed. Without the socket the part works anyway, so that a failure is only logged.
func (a *adminServer) serve(dir string) *adminServer {
	log := a.log
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+contract.PathGroup, a.group)
	mux.HandleFunc("POST "+contract.PathAcceptRegister, a.acceptRegister)
	mux.HandleFunc("GET "+contract.PathLoss, a.loss)
	mux.HandleFunc("POST "+contract.PathAcceptLoss, a.acceptLoss)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second}
	l, err := listenAdmin(filepath.Join(dir, contract.AdminSocket))
	if err != nil {
		log.Warn("causalstore recover cannot be used here", "error", err)
		return a
	}
	go func() {
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("causalstore recover cannot be used here any more", "error", err)
		}
	}()
	return a
}

// maxSocketPath bounds the path of a unix socket: 108 bytes on Linux, 104 elsewhere, with a byte at the end.
const maxSocketPath = 103

// listenAdmin listens at a socket. One that is there is left from a process that has ended: the log, which is locked,
// has one user.
func listenAdmin(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path %s has %d bytes, and that of a socket may have %d: give dataDir a shorter one",
			path, len(path), maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (a *adminServer) close() { _ = a.server.Close() } // requests in flight are cut

func (a *adminServer) group(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, describeGroup(a.c))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has gone
}

func (a *adminServer) acceptRegister(w http.ResponseWriter, r *http.Request) {
	epoch, err := strconv.ParseUint(r.URL.Query().Get(contract.ParamEpoch), 10, 64)
	if err != nil {
		http.Error(w, "give the epoch of the group that was seen", http.StatusBadRequest)
		return
	}
	reason := a.c.Status().Frozen
	if err := a.c.AcceptRegister(epoch); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	a.log.Warn("somebody has accepted the register of the group", "epoch", epoch, "it was frozen because", reason)
	w.WriteHeader(http.StatusNoContent)
}
