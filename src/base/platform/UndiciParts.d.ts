// Modules of undici that are loaded individually, which its `package.json` permits. The only documented entry, its
// index, cannot be used in a library. Unless Node's built-in undici was loaded before, the index replaces the global
// dispatcher of the process, which the application's `fetch` uses. The index also loads mocks, caches, WebSocket, a
// `fetch` and `node:worker_threads`.
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
