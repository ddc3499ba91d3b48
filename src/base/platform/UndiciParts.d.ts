// Modules of undici that are loaded alone. Its package.json restricts no path, and its index, the only documented entry,
// cannot be used in a library: unless Node's own undici was loaded before, it replaces the dispatcher of the process, by
// which the application's `fetch` sends. It also loads mocks, caches, WebSocket, a `fetch` and `node:worker_threads`.
declare module "undici/lib/dispatcher/pool.js" {
  import { Pool } from "undici"
  export default Pool
}

declare module "undici/lib/api/api-connect.js" {
  import type { Dispatcher } from "undici"
  export default Dispatcher.prototype.connect
}

declare module "undici/lib/dispatcher/env-http-proxy-agent.js" {
  import { EnvHttpProxyAgent } from "undici"
  export default EnvHttpProxyAgent
}
