/** The stand-in for a model, without a network. */
export * as Offline from "../../provider/Offline.ts"
