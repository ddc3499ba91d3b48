/** The stand-in for a model, without a network. */
export * as Offline from "../../../models/provider/Offline.ts"
