/** HTTP servers over the runtime. */
export * as HermesServer from "../server/HermesServer.ts"
