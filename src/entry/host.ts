/** A live session, below every client that people have a conversation with. */
export type * as HostEvent from "../host/HostEvent.ts"
export * as LiveSession from "../host/LiveSession.ts"
