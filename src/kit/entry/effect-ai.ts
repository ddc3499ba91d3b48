/** Integration with `effect/ai`: its models as providers, and providers as its models. */
export * as FromLanguageModel from "../../models/provider/FromLanguageModel.ts"
export * as ToLanguageModel from "../../models/provider/ToLanguageModel.ts"
