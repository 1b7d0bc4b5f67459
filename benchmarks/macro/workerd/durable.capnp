# workerd serve durable.capnp --socket-addr http=127.0.0.1:<port> --directory-path state=<folder>
# Durable Objects on disk, as svc with --state.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .counter), (name = "state", disk = (writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);

const counter :Workerd.Worker = (
  modules = [(name = "durable-counter.js", esModule = embed "durable-counter.js")],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "Counter", uniqueKey = "counter", enableSql = true)],
  durableObjectStorage = (localDisk = "state"),
  bindings = [(name = "COUNTER", durableObjectNamespace = "Counter")]
);
