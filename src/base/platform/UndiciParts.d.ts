// Modules of undici that are loaded individually. Its `package.json` permits this. Its index, the only documented
// entry, cannot be used in a library: unless Node's built-in undici was loaded before, the index replaces the
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
