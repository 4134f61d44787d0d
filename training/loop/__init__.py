"""The training loop, the same for every model.

rates             learning-rate schedule, rates by layer
optimizers        Adam with weight decay
lamb              LAMB
muon              Muon for kernels, Adam for the rest
loss_scale        loss scaling for float16
resume_point      where a run resumes, beside each checkpoint
checkpointing     checkpoints of a run: whole, few, resumed exactly
events            TensorBoard events, evaluation results, progress figures
custom_gradients  releases what TensorFlow keeps of custom gradients
steps             one update, and many in one call
schedule          the end of a run, in steps or in minutes
resuming          the first step of a run
trainer           the loop itself
"""
