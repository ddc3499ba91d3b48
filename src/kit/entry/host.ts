/** A live session, below every client that people have a conversation with. */
export type * as HostEvent from "../../serve/host/HostEvent.ts"
export * as LiveSession from "../../serve/host/LiveSession.ts"
