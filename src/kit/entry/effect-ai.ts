/** Integration with `effect/ai`: its models as providers, and providers and routers as its models. */
export * as FromLanguageModel from "../../models/provider/FromLanguageModel.ts"
export * as RoutedLanguageModel from "../../models/routing/RoutedLanguageModel.ts"
export * as ToLanguageModel from "../../models/provider/ToLanguageModel.ts"
