/** The offline stand-in for a model. */
export * as Offline from "../../../models/provider/Offline.ts"
