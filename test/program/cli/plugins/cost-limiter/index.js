/** @param {import("hermes-effect").Plugin.RegisterContext<{ readonly max_tokens: number }>} ctx */
export const register = (ctx) => {
  let used = 0
  ctx.registerHook("post_api_request", ({ usage }) => {
    used += (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0)
  })
  ctx.registerMiddleware(
    "wrap_model_call",
    async ({ next_call }) => {
      if (used >= ctx.config.max_tokens) {
        const veto = new Error(`${used} of ${ctx.config.max_tokens} tokens are used`)
        veto.name = "ExecutionBlocked"
        throw veto
      }
      return next_call()
    },
    { onFailure: "closed" }
  )
}
