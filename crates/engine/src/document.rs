//! From a text to what the client brings into a session.

use crate::session::ClientInput;
use crate::EngineError;
use cipherloom_model::{Encoded, Mamba2, ModelError};

/// Embeds a tokenized text with the public table and weighs its tokens for pooling.
///
/// # Errors
/// `Model` for an id outside the table.
pub fn client_input(model: &Mamba2, text: &Encoded) -> Result<ClientInput, EngineError> {
    let table = &model.embeddings;
    let mut embedded = Vec::with_capacity(text.ids.len() * table.cols);
    for (position, &id) in text.ids.iter().enumerate() {
        if id as usize >= table.rows {
            return Err(ModelError::TokenId {
                id,
                position,
                vocab: table.rows,
            }
            .into());
        }
        embedded.extend_from_slice(table.row(id as usize));
    }
    let pooling = model.config.pooling.weights(text.real, text.ids.len());
    Ok(ClientInput { embedded, pooling })
}
