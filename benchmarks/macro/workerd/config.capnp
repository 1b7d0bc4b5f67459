# workerd serve config.capnp --socket-addr http=127.0.0.1:<port>
# Durable Objects in memory, as svc without --state.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .counter)],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);

const counter :Workerd.Worker = (
  modules = [(name = "counter.js", esModule = embed "counter.js")],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "Counter", uniqueKey = "counter")],
  durableObjectStorage = (inMemory = void),
  bindings = [(name = "COUNTER", durableObjectNamespace = "Counter")]
);
