// Modules of undici that are loaded alone. Its index loads all of it: mocks, caches, WebSocket, a `fetch`, a third of
// its code that nothing here uses.
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
