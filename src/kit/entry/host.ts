/** A live session, which every interactive client uses. */
export type * as HostEvent from "../../serve/host/HostEvent.ts"
export * as LiveSession from "../../serve/host/LiveSession.ts"
